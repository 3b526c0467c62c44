// The hop between supervisor and worker: one shared page, two eventfds, one SEQPACKET pair, all
// made before fork. A frame crosses as slot numbers, ids, times and vehicle inputs in the page
// (Job); the answer as status, reason, times and the raw output vector in the page (Answer). No
// pixels, no serialisation. The SEQPACKET pair carries what happens once: set-up, hello, failures,
// and the camera's buffer descriptors per connection. Contract: one job at a time; the page belongs
// to the worker from post_job() to its answer, else to the supervisor. The worker is the less
// trusted end: the supervisor checks every size it reads from the page. Threading: one thread on
// each side.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hal/base/mapping.h"
#include "hal/base/status.h"
#include "hal/base/trace.h"

#include "models/bundle/manifest.h"
#include "models/model.h"

#include "ipc/frame.h"
#include "ipc/model_state.h"

namespace modeld::daemon {

inline constexpr uint32_t kHopVersion = 4;
inline constexpr uint32_t kMaxRawFloats = 65536;
inline constexpr size_t kMaxHopPacket = 64 * 1024;
inline constexpr size_t kTextBytes = 256;

// Fixed descriptor numbers in the worker, in this order from the first on.
inline constexpr int kWorkerPageFd = 3;
inline constexpr int kWorkerSocketFd = 4;
inline constexpr int kWorkerJobFd = 5;         // eventfd, readable when a job is posted
inline constexpr int kWorkerAnswerFd = 6;      // eventfd, written with every answer
inline constexpr int kWorkerCaptureFd = 7;     // memory file for the tensors of a failed run
inline constexpr int kWorkerDeviceLockFd = 8;  // held, never used (device_lock.h)

struct JobFrame {
  uint32_t slot = 0;
  bool is_present = false;
  uint64_t frame_id = 0;
  int64_t sof_ns = 0;
};

struct Job {
  uint64_t number = 0;
  uint64_t camera_epoch = 0;
  int64_t deadline_ns = 0;
  bool reset = false;        // forget recurrent state and histories first
  bool may_capture = false;  // nobody reads the capture file: a failed run may be written to it
  std::array<JobFrame, models::kStreams> frames{};
  models::VehicleState vehicle;
};

enum class AnswerStatus : uint8_t { kAccepted, kNonFinite, kFailed };

struct Answer {
  uint64_t number = 0;
  AnswerStatus status = AnswerStatus::kFailed;
  ipc::Reason reason = ipc::Reason::kNone;
  int64_t warp_ns = 0;
  int64_t run_ns = 0;
  int64_t done_ns = 0;  // when it was ready, by the worker
  uint32_t raw_size = 0;
  uint64_t capture_bytes = 0;  // of the capture file, 0: the run is not in it
  std::array<char, kTextBytes> text{};
};

struct HopPage {
  uint32_t version = kHopVersion;
  Job job;
  Answer answer;
  std::array<float, kMaxRawFloats> raw{};
};
static_assert(std::is_trivially_copyable_v<HopPage>);

// Behind the page, in the same memory: the worker's trace rings (hal/base/trace.h), which the
// supervisor only reads.
inline constexpr size_t kHopTraceOffset = (sizeof(HopPage) + 4095) / 4096 * 4096;
inline constexpr size_t kHopBytes = kHopTraceOffset + kTraceMemoryBytes;

// What a worker must know before it can start; sent once.
struct WorkerSetup {
  std::string name;  // "road", "cabin"
  std::string bundle;
  std::string device;
  std::string prepare;
  std::string keys_dir;
  bool require_signature = false;
  std::vector<int> cpus;
  int64_t priority = 0;
  int32_t nice = 0;  // of a fallback: it must not take time from the primary
  int64_t load_s = 60;
};

// What a warm worker says of its model.
struct WorkerHello {
  std::string bundle_id;  // SHA-256 of the ONNX model, hex
  std::string device;
  bool is_simulated = false;
  uint32_t raw_size = 0;
  uint32_t context_frames = 0;
  uint64_t compiled_calls = 0;
  uint8_t realtime_missing = 0;  // daemon/realtime.h
  std::vector<bundle::SliceRow> slices;
  std::vector<bundle::GeometryRow> geometries;
};

struct WorkerFailure {
  ipc::Reason reason = ipc::Reason::kNone;
  std::string text;
};

struct StreamBuffers {
  ipc::StreamInfo info;
  uint32_t first_fd = 0;  // position among the packet's descriptors
};
struct CameraBuffers {
  uint64_t epoch = 0;
  std::vector<StreamBuffers> streams;
};

enum class Packet : uint8_t { kSetup, kBuffers, kSelftest, kHello, kFailure };

std::vector<std::byte> encode(const WorkerSetup& setup);
std::vector<std::byte> encode(const WorkerHello& hello);
std::vector<std::byte> encode(const WorkerFailure& failure);
std::vector<std::byte> encode(const CameraBuffers& buffers);
std::vector<std::byte> encode_selftest();

Result<Packet> packet_kind(std::span<const std::byte> bytes);
Result<WorkerSetup> decode_setup(std::span<const std::byte> bytes);
Result<WorkerHello> decode_hello(std::span<const std::byte> bytes);
Result<WorkerFailure> decode_failure(std::span<const std::byte> bytes);
Result<CameraBuffers> decode_buffers(std::span<const std::byte> bytes);

}  // namespace modeld::daemon
