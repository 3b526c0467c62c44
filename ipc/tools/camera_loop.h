// The loop of modelcam: at every frame time draw all streams, send them with one frame id and start
// of frame, publish the vehicle inputs. Times are absolute deadlines; a tick that was missed by
// more than a period is skipped with its frame id. Threading: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "hal/base/status.h"

#include "ipc/frame_server.h"
#include "ipc/frame_source.h"
#include "ipc/publisher.h"

namespace modeld::ipc {

struct CameraOptions {
  SourceSpec source;
  std::string dir;
  uint64_t first_frame = 0;
  std::optional<uint64_t> frames;  // stop after this many
};

struct CameraCounts {
  uint64_t frames = 0;
  uint64_t skipped = 0;        // frame times that passed while the machine was busy
  uint64_t lost_for_slow = 0;  // frames that some client was too slow for
  uint64_t lost_for_all = 0;
};

class CameraLoop final {
 public:
  static Result<std::unique_ptr<CameraLoop>> create(const CameraOptions& options);
  // Until `frames` are sent or a stop signal.
  Result<CameraCounts> run();

 private:
  explicit CameraLoop(const CameraOptions& options) : options_(options) {}
  Status send_frame(uint64_t frame_id, int64_t sof_ns);
  Status send_vehicle(uint64_t frame_id, int64_t time_ns);
  Status wait_until(int64_t time_ns);

  CameraOptions options_;
  std::unique_ptr<FrameSource> source_;
  std::unique_ptr<FrameServer> server_;
  ZmqContext context_;
  std::unique_ptr<Sender> vehicle_sender_;
  std::unique_ptr<Publisher> vehicle_;
  VehicleMessage vehicle_message_;
  CameraCounts counts_;
};

}  // namespace modeld::ipc
