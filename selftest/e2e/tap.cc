// The tap: what a client of the daemon sees, kept with the time it came.
#include <cmath>
#include <span>

#include "hal/base/hash.h"

#include "ipc/poller.h"
#include "ipc/subscriber.h"

#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

class Scan {
 public:
  void add(std::span<const float> values) {
    digest_ = combine(digest_, xxh128(std::as_bytes(values)));
    for (const float v : values) finite_ = finite_ && std::isfinite(v);
  }
  template <size_t N>
  void add(const ipc::Mdn<N>& mdn) {
    add(mdn.mean);
    add(mdn.std);
  }
  void into(Output& out) const {
    out.digest = digest_.lo;
    out.is_finite = finite_;
  }

 private:
  Hash128 digest_;
  bool finite_ = true;
};

void scan(const ipc::RoadMessage& m, Output& out) {
  Scan s;
  s.add(m.plan);
  s.add(m.lane_lines);
  s.add(m.lane_line_probs);
  s.add(m.road_edges);
  s.add(m.leads);
  s.add(m.lead_probs);
  s.add(m.pose);
  s.add(m.road_transform);
  s.add(m.wide_from_device_euler);
  s.add(m.meta);
  s.add(m.desire_pred);
  s.add(m.desire_state);
  s.add(m.action);
  s.add(m.raw);
  s.into(out);
  out.plan_numbers = m.plan.mean.size();
}

void scan(const ipc::CabinMessage& m, Output& out) {
  Scan s;
  for (const ipc::CabinSide* side : {&m.lhd, &m.rhd}) {
    s.add(side->face);
    const float probs[] = {side->face_prob,        side->left_eye_prob,    side->right_eye_prob,
                           side->left_blink_prob,  side->right_blink_prob, side->sunglasses_prob,
                           side->using_phone_prob, side->sleep_prob};
    s.add(probs);
  }
  s.add(std::span(&m.wheel_on_right_prob, 1));
  s.add(m.raw);
  s.into(out);
}

}  // namespace

std::vector<Output> valid_ones(const std::vector<Output>& all) {
  std::vector<Output> out;
  for (const Output& o : all) {
    if (o.header.valid) out.push_back(o);
  }
  return out;
}

bool is_of_the_machine(ipc::Reason reason) {
  return reason == ipc::Reason::kCameraFault || reason == ipc::Reason::kInputStale;
}

Tap::Tap(std::string dir) : dir_(std::move(dir)), thread_([this] { loop(); }) {}

Tap::~Tap() {
  stop_ = true;
  thread_.join();
}

template <class M>
void Tap::keep(const std::string& model, const M& message, uint64_t frame_id) {
  Output out;
  out.at_ns = now_ns();
  out.header = message.header;
  out.timings = message.timings;
  out.run = message.run;
  out.frame_id = frame_id;
  scan(message, out);
  const std::scoped_lock lock(mutex_);
  outputs_[model].push_back(out);
}

void Tap::keep(const ipc::StateMessage& message) {
  const int64_t at = now_ns();
  const std::scoped_lock lock(mutex_);
  first_state_.emplace(message.models.size(), at);
  for (const ipc::ModelStatus& status : message.models) {
    const auto last = now_.find(status.name);
    const bool changed = last == now_.end() || last->second.state != status.state ||
                         last->second.reason != status.reason ||
                         last->second.since_ns != status.since_ns;
    if (changed) transitions_[status.name].push_back({at, status});
    now_[status.name] = status;
  }
}

void Tap::loop() {
  ipc::ZmqContext context;
  const auto state = ipc::connect_topic(context, dir_, ipc::Topic::kState);
  const auto road = ipc::connect_topic(context, dir_, ipc::Topic::kRoad);
  const auto cabin = ipc::connect_topic(context, dir_, ipc::Topic::kCabin);
  if (!state.ok() || !road.ok() || !cabin.ok()) {
    ADD_FAILURE() << "tap cannot subscribe in " << dir_;
    return;
  }
  ipc::Poller poller;
  for (const auto* r : {&state, &road, &cabin}) poller.add((**r)->poll_fd());
  ipc::StateMessage state_scratch;
  ipc::RoadMessage road_scratch;
  ipc::CabinMessage cabin_scratch;
  while (!stop_) {
    (void)poller.wait_until(Deadline::in_ms(20)).ok();
    (void)ipc::for_each_message(**state, state_scratch, [&](const auto& m) { keep(m); }).ok();
    (void)ipc::for_each_message(**road, road_scratch, [&](const auto& m) {
      keep("road", m, m.road_frame_id);
    }).ok();
    (void)ipc::for_each_message(**cabin, cabin_scratch, [&](const auto& m) {
      keep("cabin", m, m.cabin_frame_id);
    }).ok();
  }
}

std::vector<Output> Tap::outputs(const std::string& model) const {
  const std::scoped_lock lock(mutex_);
  const auto at = outputs_.find(model);
  return at == outputs_.end() ? std::vector<Output>() : at->second;
}

std::vector<Transition> Tap::transitions(const std::string& model) const {
  const std::scoped_lock lock(mutex_);
  const auto at = transitions_.find(model);
  return at == transitions_.end() ? std::vector<Transition>() : at->second;
}

std::optional<ipc::ModelStatus> Tap::status(const std::string& model) const {
  const std::scoped_lock lock(mutex_);
  const auto at = now_.find(model);
  return at == now_.end() ? std::nullopt : std::optional(at->second);
}

int64_t Tap::first_state_ns(size_t models) const {
  const std::scoped_lock lock(mutex_);
  const auto at = first_state_.find(models);
  return at == first_state_.end() ? 0 : at->second;
}

bool Tap::wait_for(const std::function<bool()>& holds, int64_t timeout_ms) const {
  const Deadline deadline = Deadline::in_ms(timeout_ms);
  while (!holds()) {
    if (deadline.has_passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::optional<Transition> Tap::find(const std::string& model,
                                    ipc::ModelState state,
                                    int64_t after_ns) const {
  for (const Transition& t : transitions(model)) {
    if (t.status.state == state && t.at_ns >= after_ns) return t;
  }
  return std::nullopt;
}

std::optional<Transition> Tap::find_fault(const std::string& model, int64_t after_ns) const {
  for (const Transition& t : transitions(model)) {
    const bool is_out = t.status.state == ipc::ModelState::kUnavailable;
    if (is_out && t.at_ns >= after_ns && !is_of_the_machine(t.status.reason)) return t;
  }
  return std::nullopt;
}

bool Tap::wait_state(const std::string& model,
                     ipc::ModelState state,
                     int64_t timeout_ms,
                     int64_t after_ns) const {
  return wait_for([&] { return find(model, state, after_ns).has_value(); }, timeout_ms);
}

}  // namespace modeld::e2e
