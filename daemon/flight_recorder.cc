#include "daemon/flight_recorder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"
#include "hal/base/log.h"

namespace modeld::daemon {
namespace {

constexpr int kWriterNice = 19;  // behind a fallback, which may be taking over just then
constexpr uint64_t kPageBytes = 4096;

const char* model_word(ipc::RecordedModel model) {
  return model == ipc::RecordedModel::kRoad ? "road" : "cabin";
}

// What a worker wrote; it may be anything.
Result<std::vector<ipc::FlightTensor>> read_capture(int fd, uint64_t size) {
  if (size > ipc::kMaxFlightBytes)
    return fail(Errc::kInvalid,
                strf("tensors of %llu bytes", static_cast<unsigned long long>(size)));
  std::vector<std::byte> bytes(size);
  uint64_t done = 0;
  while (done < size) {
    const ssize_t n = pread(fd, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (n <= 0) return fail_errno(Errc::kIo, "reading the tensors of a run", errno);
    done += static_cast<uint64_t>(n);
  }
  auto tensors = ipc::parse_tensors(bytes);
  // Its memory, whole pages, is the machine's again.
  (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                   static_cast<off_t>(align_up(size, kPageBytes)));
  return tensors;
}

ipc::FlightPicture picture_of(const ipc::FrameRef& frame) {
  const ipc::Nv12Geometry& g = frame.info().geometry;
  return {frame.meta().stream, frame.meta().frame_id, g.width, g.height, g.stride,
          g.uv_offset,         frame.pixels()};
}

struct Kept {
  std::string path;
  uint64_t bytes = 0;
  int64_t time_ns = 0;
};

std::vector<Kept> kept_records(const std::string& dir) {
  std::vector<Kept> out;
  const auto names = list_dir(dir);
  if (!names.ok()) return out;
  const std::string suffix = ipc::kFlightSuffix;
  for (const std::string& name : *names) {
    const bool is_record = name.size() > suffix.size() &&
                           name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
    struct stat st {};
    const std::string path = join_path(dir, name);
    if (!is_record || stat(path.c_str(), &st) != 0) continue;
    out.push_back({path, static_cast<uint64_t>(st.st_size),
                   st.st_mtim.tv_sec * kNsPerSecond + st.st_mtim.tv_nsec});
  }
  std::sort(out.begin(), out.end(), [](const Kept& a, const Kept& b) {
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.path < b.path;
  });
  return out;
}

}  // namespace

// ---- the last runs ----

void FlightRing::prepare(ipc::RecordedModel model, size_t runs, size_t raw_size) {
  noted_ = 0;
  runs_.assign(runs, {});
  for (ipc::RecordedRun& r : runs_) {
    r.model = model;
    r.raw.reserve(raw_size);
  }
}

ipc::RecordedRun recorded_run(ipc::RecordedModel model,
                              const RunReport& report,
                              std::span<const float> raw) {
  ipc::RecordedRun r;
  r.model = model;
  r.frame_id = report.frame_id;
  r.wide_frame_id = report.wide_frame_id;
  r.resets = report.run.resets;
  r.since_reset = report.run.since_reset;
  r.vehicle = report.vehicle;
  r.raw.assign(raw.begin(), raw.end());
  return r;
}

void FlightRing::note(const RunReport& report, std::span<const float> raw) {
  if (runs_.empty()) return;
  ipc::RecordedRun& r = runs_[noted_++ % runs_.size()];
  r.frame_id = report.frame_id;
  r.wide_frame_id = report.wide_frame_id;
  r.resets = report.run.resets;
  r.since_reset = report.run.since_reset;
  r.vehicle = report.vehicle;
  r.raw.assign(raw.begin(),
               raw.begin() + static_cast<std::ptrdiff_t>(std::min(raw.size(), r.raw.capacity())));
}

std::vector<ipc::RecordedRun> FlightRing::runs() const {
  std::vector<ipc::RecordedRun> out;
  const uint64_t count = std::min<uint64_t>(noted_, runs_.size());
  for (uint64_t i = noted_ - count; i < noted_; ++i) out.push_back(runs_[i % runs_.size()]);
  return out;
}

// ---- the recorder ----

FlightRecorder::FlightRecorder(FlightOptions options) : options_(std::move(options)) {}

FlightRecorder::~FlightRecorder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void FlightRecorder::submit(FlightJob job) {
  if (!is_on()) return;
  int64_t& last = last_ns_[static_cast<size_t>(job.flight.failed.model)];
  const bool is_soon = last != 0 && job.flight.time_ns - last < kQuietNs;
  if (is_soon || pending_.load() >= static_cast<int>(kMaxJobs)) {
    ++dropped_;
    return;
  }
  last = job.flight.time_ns;
  pending_.fetch_add(1);
  auto task = std::make_unique<Task>();
  task->job = std::move(job);
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  // Started with the first failure, when the daemon's own threads have the class they keep: it is
  // not one of those.
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  wake_.notify_one();
}

void FlightRecorder::collect() {
  if (done_.load(std::memory_order_acquire) == 0) return;
  std::vector<std::unique_ptr<Task>> finished;
  {
    const std::lock_guard lock(mutex_);
    while (!tasks_.empty() && tasks_.front()->is_done.load()) {
      finished.push_back(std::move(tasks_.front()));
      tasks_.pop_front();
    }
  }
  const auto count = static_cast<int>(finished.size());
  finished.clear();  // pictures go back to the camera here, on the frame loop
  done_.fetch_sub(count);
  pending_.fetch_sub(count);
}

void FlightRecorder::serve() {
  // Only this thread: a record may take its time.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kWriterNice);
  std::unique_lock lock(mutex_);
  while (true) {
    const auto next = [&] {
      return std::find_if(tasks_.begin(), tasks_.end(),
                          [](const auto& t) { return !t->is_done.load(); });
    };
    wake_.wait(lock, [&] { return stop_ || next() != tasks_.end(); });
    const auto at = next();
    if (at == tasks_.end()) return;  // stopped, and all is written
    Task& task = **at;
    lock.unlock();
    const Status s = write(task.job);
    (s.ok() ? written_ : failed_).fetch_add(1);
    if (!s.ok()) LOG_ERROR("flight", "%s: no record of the failure", s.error().what.c_str());
    lock.lock();
    task.is_done.store(true);
    done_.fetch_add(1, std::memory_order_release);
  }
}

Status FlightRecorder::write(FlightJob& job) {
  ipc::Flight& f = job.flight;
  if (job.capture_bytes > 0) {
    auto tensors = read_capture(job.capture.get(), job.capture_bytes);
    if (!tensors.ok()) LOG_WARN("flight", "%s", tensors.error().what.c_str());
    if (tensors.ok()) f.tensors = std::move(*tensors);
  }
  if (f.tensors.empty()) {
    for (const ipc::FrameRef& frame : job.pictures) f.pictures.push_back(picture_of(frame));
  }
  std::vector<std::byte> body = ipc::encode_flight_body(f);
  uint64_t total = body.size();
  for (const ipc::FlightPicture& p : f.pictures) total += p.nv12.size();
  if (total > options_.limit_bytes) {
    // The runs alone say which frames they were.
    f.tensors.clear();
    f.pictures.clear();
    body = ipc::encode_flight_body(f);
    total = body.size();
  }
  RETURN_IF_ERROR(make_dirs(options_.dir, 0750));
  RETURN_IF_ERROR(make_room(total));
  const std::string path =
      join_path(options_.dir,
                strf("%s-%s-frame%llu-%lld%s", model_word(f.failed.model),
                     ipc::reason_name(f.reason), static_cast<unsigned long long>(f.failed.frame_id),
                     static_cast<long long>(f.time_ns / kNsPerMs), ipc::kFlightSuffix));
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, 0640));
  RETURN_IF_ERROR(file.write(body));
  for (const ipc::FlightPicture& p : f.pictures) RETURN_IF_ERROR(file.write(std::as_bytes(p.nv12)));
  RETURN_IF_ERROR(file.commit());
  LOG_INFO("flight", "%s: record of the failure in %s", model_word(f.failed.model), path.c_str());
  return {};
}

Status FlightRecorder::make_room(uint64_t bytes) const {
  if (bytes > options_.limit_bytes) {
    return fail(Errc::kInvalid, strf("flight record of %llu bytes, limit %llu",
                                     static_cast<unsigned long long>(bytes),
                                     static_cast<unsigned long long>(options_.limit_bytes)));
  }
  const std::vector<Kept> kept = kept_records(options_.dir);
  uint64_t total = bytes;
  for (const Kept& k : kept) total += k.bytes;
  for (const Kept& k : kept) {
    if (total <= options_.limit_bytes) break;
    RETURN_IF_ERROR(remove_file(k.path));
    total -= k.bytes;
  }
  return {};
}

}  // namespace modeld::daemon
