#include "ipc/fake_bus.h"

#include <algorithm>
#include <deque>

namespace modeld::ipc {
namespace {

using Message = std::vector<uint64_t>;  // aligned as the real receiver's

struct Queue {
  std::deque<std::pair<Message, size_t>> messages;  // words and size in bytes
};

}  // namespace

struct FakeBus::Core {
  std::array<std::vector<std::weak_ptr<Queue>>, 8> queues;
  uint64_t lost = 0;
};

namespace {

class FakeReceiver final : public Receiver {
 public:
  explicit FakeReceiver(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}
  Result<std::span<const std::byte>> receive() override {
    if (queue_->messages.empty()) return std::span<const std::byte>{};
    last_ = std::move(queue_->messages.front());
    queue_->messages.pop_front();
    return std::span(reinterpret_cast<const std::byte*>(last_.first.data()), last_.second);
  }
  int poll_fd() const override { return -1; }

 private:
  std::shared_ptr<Queue> queue_;
  std::pair<Message, size_t> last_;
};

template <class Core>
class FakeSender final : public Sender {
 public:
  FakeSender(std::shared_ptr<Core> core, Topic topic) : core_(std::move(core)), topic_(topic) {}
  Status send(std::span<const std::byte> bytes) override {
    const auto depth = static_cast<size_t>(topic_info(topic_).queue_depth);
    for (const auto& weak : core_->queues[static_cast<size_t>(topic_)]) {
      const auto queue = weak.lock();
      if (queue == nullptr) continue;
      if (queue->messages.size() >= depth) {
        queue->messages.pop_front();
        ++core_->lost;
      }
      Message words((bytes.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
      std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(words.data()));
      queue->messages.emplace_back(std::move(words), bytes.size());
    }
    return {};
  }

 private:
  std::shared_ptr<Core> core_;
  Topic topic_;
};

}  // namespace

FakeBus::FakeBus() : core_(std::make_shared<Core>()) {}
FakeBus::~FakeBus() = default;

std::unique_ptr<Sender> FakeBus::sender(Topic topic) {
  return std::make_unique<FakeSender<Core>>(core_, topic);
}

std::unique_ptr<Receiver> FakeBus::receiver(Topic topic) {
  auto queue = std::make_shared<Queue>();
  core_->queues[static_cast<size_t>(topic)].push_back(queue);
  return std::make_unique<FakeReceiver>(std::move(queue));
}

uint64_t FakeBus::lost() const {
  return core_->lost;
}

}  // namespace modeld::ipc
