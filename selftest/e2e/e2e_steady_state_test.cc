// Nothing is allocated once models run: the daemon's own program, linked with a probe that counts
// every way to memory, in supervisor and workers, over a few seconds of frames.
#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <filesystem>

#include "hal/base/unique_fd.h"

#include "selftest/e2e/alloc_probe.h"
#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;

constexpr int64_t kLoadMs = 60'000;

// The shared page of one process.
class Page {
 public:
  Page(const std::string& dir, int pid) {
    const UniqueFd fd(open(alloc_page_path(dir, pid).c_str(), O_RDWR | O_CLOEXEC));
    void* const at = fd.is_open() ? mmap(nullptr, sizeof(AllocPage), PROT_READ | PROT_WRITE,
                                         MAP_SHARED, fd.get(), 0)
                                  : MAP_FAILED;
    if (at != MAP_FAILED) page_ = static_cast<AllocPage*>(at);
  }
  ~Page() {
    if (page_ != nullptr) munmap(page_, sizeof(AllocPage));
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  bool is_open() const { return page_ != nullptr; }
  AllocPage& operator*() { return *page_; }
  AllocPage* operator->() { return page_; }
  // Of the first call of ours, for addr2line.
  std::string sample() const {
    std::string out = page_->name;
    for (const uint64_t at : page_->sample)
      if (at != 0) out += strf(" +0x%llx", static_cast<unsigned long long>(at - page_->text_start));
    return out;
  }

 private:
  AllocPage* page_ = nullptr;
};

RigOptions probed() {
  RigOptions o;
  o.bundles = {{"road", tiny_bundle("road")}, {"cabin", tiny_bundle("cabin")}};
  o.daemon_program = "modeld_probe";
  return o;
}

void wait_frames(Rig& rig, size_t more) {
  for (const char* model : {"road", "cabin"}) {
    ASSERT_TRUE(rig.tap().wait_state(model, ModelState::kReady, kLoadMs)) << model;
    const size_t seen = rig.tap().outputs(model).size();
    ASSERT_TRUE(
        rig.tap().wait_for([&] { return rig.tap().outputs(model).size() >= seen + more; }, 30'000));
  }
}

struct Counts {
  uint64_t in_zmq = 0, ours = 0;
  uint64_t all() const { return in_zmq + ours; }
};

Counts operator-(const Counts& a, const Counts& b) {
  return {a.in_zmq - b.in_zmq, a.ours - b.ours};
}

Counts counts(Page& p) {
  return {p->in_zmq.load(), p->ours.load()};
}

// So that a model which a busy machine sent out and back, with a line in the log, is told from a
// steady one.
size_t transitions(const Rig& rig_const) {
  Tap& tap = const_cast<Rig&>(rig_const).tap();
  return tap.transitions("road").size() + tap.transitions("cabin").size();
}

TEST(SteadyState, StepsAllocateNothing) {
  Rig rig(probed());
  wait_frames(rig, 30);
  Page supervisor(rig.dir(), rig.daemon().pid());
  Page road(rig.dir(), rig.worker_pid("road"));
  Page cabin(rig.dir(), rig.worker_pid("cabin"));
  Page* const pages[] = {&supervisor, &road, &cabin};
  for (Page* p : pages) {
    ASSERT_TRUE(p->is_open());
    EXPECT_GT((*p)->before.load(), 100u) << "the probe counts";
    (*p)->armed = 1;
  }
  std::array<Counts, 3> used;
  size_t changes = 1;
  for (int i = 0; i < 10 && changes > 0; ++i) {
    changes = transitions(rig);
    for (size_t p = 0; p < used.size(); ++p) used[p] = counts(*pages[p]);
    wait_frames(rig, 50);
    for (size_t p = 0; p < used.size(); ++p) used[p] = counts(*pages[p]) - used[p];
    changes = transitions(rig) - changes;
  }
  ASSERT_EQ(changes, 0u) << "the models never ran undisturbed for 50 frames";
  std::printf("supervisor: %llu in libzmq, %llu outside; road worker: %llu; cabin worker: %llu\n",
              static_cast<unsigned long long>(used[0].in_zmq),
              static_cast<unsigned long long>(used[0].ours),
              static_cast<unsigned long long>(used[1].all()),
              static_cast<unsigned long long>(used[2].all()));
  EXPECT_GT(used[0].in_zmq, 0u) << "libzmq allocates, and the probe sees it";
  EXPECT_EQ(used[0].ours, 0u) << supervisor.sample();
  EXPECT_EQ(used[1].all(), 0u) << road.sample();
  EXPECT_EQ(used[2].all(), 0u) << cabin.sample();
  // And it would have seen one: answering a question takes memory.
  const uint64_t before = supervisor->ours.load();
  ASSERT_EQ(rig.ctl({"status"}).exit_code, 0);
  EXPECT_GT(supervisor->ours.load(), before);
}

}  // namespace
}  // namespace modeld::e2e
