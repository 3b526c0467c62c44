#include "daemon/worker_main.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hal/backends.h"
#include "hal/base/env.h"
#include "hal/base/fault.h"
#include "hal/base/fs.h"
#include "hal/base/log.h"
#include "hal/base/trace.h"

#include "runtime/exec/compile_plan.h"
#include "runtime/exec/prepare.h"

#include "models/bundle/bundle_reader.h"
#include "models/bundle/golden_answers.h"
#include "models/selftest_cases.h"

#include "ipc/poller.h"

#include "daemon/privilege.h"
#include "daemon/realtime.h"
#include "daemon/sandbox.h"
#include "daemon/worker_loop.h"
#include "daemon/worker_rights.h"

namespace modeld::daemon {
namespace {

using ipc::Reason;

// An error on the way to WARMING, with the reason it stands for.
struct StartError {
  Reason reason;
  Error error;
};
template <class T>
using Started = tl::expected<T, StartError>;

tl::unexpected<StartError> stop(Reason reason, Error error) {
  return tl::unexpected(StartError{reason, std::move(error)});
}

Result<WorkerSetup> receive_setup(ipc::FdChannel& channel) {
  std::vector<std::byte> packet(kMaxHopPacket);
  ipc::Poller poller;
  poller.add(channel.fd());
  const Deadline deadline = Deadline::in_ms(10000);
  while (!deadline.has_passed()) {
    ASSIGN_OR_RETURN(const int ready, poller.wait_until(deadline));
    if (ready == 0) continue;
    ASSIGN_OR_RETURN(const auto got, channel.receive(packet));
    if (got.got == ipc::FdChannel::Got::kClosed) break;
    if (got.got == ipc::FdChannel::Got::kPacket)
      return decode_setup(std::span<const std::byte>(packet).first(got.bytes));
  }
  return fail(Errc::kTimeout, "worker: no set-up from the supervisor within 10 s");
}

// A fallback loads and runs behind its primary.
void lower_priority(const WorkerSetup& setup) {
  if (setup.nice != 0 && setpriority(PRIO_PROCESS, 0, setup.nice) != 0)
    LOG_WARN("worker", "%s: cannot lower the priority: %s, running at the normal one",
             setup.name.c_str(), strerror(errno));
}

// Once the device's threads exist. What cannot be had is logged and done without.
RealtimeMissing enter_realtime(const WorkerSetup& setup) {
  const RealtimeResult r =
      apply_realtime({.priority = static_cast<int>(setup.priority), .cpus = setup.cpus});
  for (const std::string& text : r.texts)
    LOG_WARN("worker", "%s: %s", setup.name.c_str(), text.c_str());
  return r.missing;
}

// Everything a worker holds; built in order, destroyed in reverse.
struct Worker {
  std::unique_ptr<bundle::Bundle> bundle;
  std::unique_ptr<hal::Device> device;
  exec::Plan plan;
  std::unique_ptr<exec::LoadedPlan> loaded;
  std::unique_ptr<models::Model> model;
  uint64_t compiled_calls = 0;
  RealtimeMissing missing;
};

// A device this build does not know is the configuration's fault, one that is taken or gone is not.
Reason reason_of_open(const Error& error) {
  switch (error.code) {
    case Errc::kInvalid:
    case Errc::kUnsupported:
      return Reason::kConfig;
    case Errc::kBusy:
    case Errc::kDeviceLost:
      return Reason::kDeviceLost;
    default:
      return Reason::kLoadFailed;
  }
}

Started<void> open_and_prepare(const WorkerSetup& setup, Worker& w) {
  bundle::OpenOptions options;
  options.keys_dir = setup.keys_dir;
  options.require_signature = setup.require_signature;
  auto opened = bundle::Bundle::open(setup.bundle, options);
  if (!opened.ok()) {
    const auto reason = ipc::parse_reason(bundle::bundle_reason(opened.error()));
    return stop(reason.value_or(Reason::kBundleInvalid), std::move(opened).error());
  }
  w.bundle = std::move(*opened);
  if (bundle::role_name(w.bundle->manifest().role) != setup.name) {
    return stop(Reason::kBundleInvalid,
                fail(Errc::kMismatch,
                     strf("bundle %s: role is %s, configured for %s", w.bundle->name().c_str(),
                          bundle::role_name(w.bundle->manifest().role), setup.name.c_str()))
                    .value());
  }
  hal::DeviceConfig config;
  config.threads = w.bundle->manifest().plan.target.threads;
  config.cpus = usable_cpus(setup.cpus);
  config.on_null_run = bundle::golden_answers(*w.bundle);  // only the null device asks
  auto device = hal::open_device(setup.device, config);
  if (!device.ok()) return stop(reason_of_open(device.error()), std::move(device).error());
  w.device = std::move(*device);
  if (auto s = bundle::check_target(w.bundle->manifest(), w.device->info(), w.bundle->name());
      !s.ok()) {
    return stop(Reason::kTargetMismatch, std::move(s).error());
  }
  w.plan = w.bundle->to_plan(false);
  if (w.plan.missing_images() > 0) {
    w.plan = w.bundle->to_plan(true);
    auto policy = exec::parse_prepare_policy(setup.prepare);
    if (!policy.ok()) return stop(Reason::kConfig, std::move(policy).error());
    auto report = exec::prepare(w.plan, *policy, exec::default_compile_options(w.plan.target));
    if (!report.ok())
      return stop(Reason::kCompileFailed,
                  std::move(report).error().with("bundle " + w.bundle->name()));
    w.compiled_calls = report->prepared;
  }
  auto loaded = exec::LoadedPlan::load(w.plan, *w.device, w.bundle->sources());
  if (!loaded.ok())
    return stop(Reason::kLoadFailed, std::move(loaded).error().with("bundle " + w.bundle->name()));
  w.loaded = std::move(*loaded);
  return {};
}

Started<void> self_test(const WorkerSetup& setup, Worker& w) {
  const Deadline deadline = Deadline::in_ms(setup.load_s * 1000);
  const bundle::Manifest& m = w.bundle->manifest();
  auto results = models::run_golden_cases(m, w.bundle->section(bundle::SectionKind::kGolden),
                                          *w.loaded, deadline);
  if (!results.ok()) return stop(Reason::kSelftestFailed, std::move(results).error());
  for (const models::CaseResult& r : *results) {
    if (!r.has_passed)
      return stop(Reason::kSelftestFailed, fail(Errc::kMismatch, r.name + ": " + r.text).value());
  }
  // Every entry once at its final size: nothing is left to happen at the first frame.
  if (auto s = w.loaded->dry_run(deadline); !s.ok())
    return stop(Reason::kSelftestFailed, std::move(s).error());
  auto model = models::make_model(m, *w.loaded);
  if (!model.ok()) return stop(Reason::kBundleInvalid, std::move(model).error());
  w.model = std::move(*model);
  return {};
}

Status send(ipc::FdChannel& channel, const std::vector<std::byte>& packet) {
  ASSIGN_OR_RETURN(const bool sent, channel.send(packet));
  if (!sent) return fail(Errc::kBusy, "worker: the supervisor does not read");
  return {};
}

WorkerHello hello_of(const Worker& w) {
  WorkerHello h;
  h.bundle_id = w.bundle->manifest().model_sha256.hex();
  h.device = w.device->info().uri;
  h.is_simulated = w.device->info().is_simulated;
  h.raw_size = static_cast<uint32_t>(w.model->raw_size());
  h.context_frames = w.model->context_frames();
  h.compiled_calls = w.compiled_calls;
  h.realtime_missing = w.missing.bits();
  h.slices.assign(w.model->slices().begin(), w.model->slices().end());
  h.geometries.assign(w.model->geometries().begin(), w.model->geometries().end());
  return h;
}

int report_failure(ipc::FdChannel& channel, const StartError& e) {
  (void)!send(channel, encode(WorkerFailure{e.reason, e.error.what})).ok();
  return 1;
}

Status lock_files_of(const WorkerSetup& setup) {
  ASSIGN_OR_RETURN(const int version, lock_files(worker_rights(setup)));
  if (version == 0)
    LOG_WARN("worker", "%s: this kernel has no Landlock, files are guarded by owner and mode alone",
             setup.name.c_str());
  return {};
}

Status lock_calls_of(const WorkerSetup& setup) {
  RETURN_IF_ERROR(lock_worker_calls(has_driver(setup.device)));
  // Lock down first, probe second.
  return probe_actuators();
}

// On a CPU the bundle's code runs in this process, so that the calls are locked before its first
// instruction. A driver may still open and compile in its first launches: after those.
Started<void> lock_and_test(const WorkerSetup& setup, Worker& w, ipc::FdChannel& channel) {
  const bool first = !has_driver(setup.device);
  const auto lock = [&]() -> Started<void> {
    if (auto s = lock_calls_of(setup); !s.ok()) return stop(Reason::kPrivilege, s.error());
    return {};
  };
  if (first) {
    if (auto s = lock(); !s) return s;
  }
  if (auto s = send(channel, encode_selftest()); !s.ok())
    return stop(Reason::kLoadFailed, std::move(s).error());
  if (auto s = self_test(setup, w); !s) return s;
  return first ? Started<void>() : lock();
}

// Before the device's threads: theirs are the rings that come next.
void start_trace(std::span<std::byte> memory) {
  trace_use_memory(memory);
  trace_enable(true);
  trace_enable_kernels(!env_text("MODELD_TRACE").empty());
  trace_prepare_thread("worker");
}

int run_frames(Worker& w, ipc::FdChannel& channel, HopPage& page) {
  WorkerLoop loop(*w.model, *w.device, page, channel, kWorkerJobFd, kWorkerAnswerFd,
                  kWorkerCaptureFd);
  while (true) {
    auto alive = loop.step();
    if (!alive.ok()) return 1;
    if (!*alive) return 0;
  }
}

}  // namespace

int worker_main() {
  // A worker whose supervisor is gone has nobody to answer to.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  for (int fd = kWorkerPageFd; fd <= kWorkerDeviceLockFd; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
  ipc::FdChannel channel{UniqueFd(kWorkerSocketFd)};
  auto mapping = Mapping::map_fd(kWorkerPageFd, 0, kHopBytes, MapMode::kReadWrite);
  auto setup = receive_setup(channel);
  if (!mapping.ok() || !setup.ok()) return 1;
  auto& page = *reinterpret_cast<HopPage*>(mapping->data());
  start_trace({mapping->data() + kHopTraceOffset, kTraceMemoryBytes});

  if (auto s = lock_files_of(*setup); !s.ok())
    return report_failure(channel, {Reason::kPrivilege, s.error()});
  lower_priority(*setup);
  if (const int64_t ms = fault::number("load_delay_ms", 0); ms > 0)
    usleep(static_cast<useconds_t>(ms * 1000));

  Worker w;
  if (auto s = open_and_prepare(*setup, w); !s) return report_failure(channel, s.error());
  w.missing = enter_realtime(*setup);
  if (auto s = lock_and_test(*setup, w, channel); !s) return report_failure(channel, s.error());
  if (!send(channel, encode(hello_of(w))).ok()) return 1;
  return run_frames(w, channel, page);
}

}  // namespace modeld::daemon
