#include "selftest/fuzz/message_make.h"

#include <cstring>

namespace modeld::fuzz {
namespace {

using Words = std::vector<uint64_t>;

ipc::Header any_header(Rng& rng) {
  ipc::Header h;
  h.time_ns = static_cast<int64_t>(nasty(rng, 1u << 30));
  h.sequence = nasty(rng, 100);
  h.frame_id = rng.next();
  h.valid = rng.one_in(2);
  h.degraded = rng.one_in(2);
  h.state = static_cast<ipc::ModelState>(rng.below(ipc::kModelStateCount));
  h.reason = static_cast<ipc::Reason>(rng.below(ipc::kReasonCount));
  h.simulated = rng.one_in(2);
  return h;
}

template <class Floats>
void fill(Floats& floats, Rng& rng) {
  for (float& f : floats) f = any_float(rng);
}
template <size_t N>
void fill(ipc::Mdn<N>& m, Rng& rng) {
  fill(m.mean, rng);
  fill(m.std, rng);
}

std::string any_text(Rng& rng) {
  if (rng.one_in(30)) return std::string(512, 't');
  return any_word(rng, 40) + (rng.one_in(5) ? "\xc3\xa4\n" : "");
}

ipc::VehicleInputs any_inputs(Rng& rng) {
  ipc::VehicleInputs v;
  v.time_ns = static_cast<int64_t>(rng.next());
  v.calibration_known = rng.one_in(2);
  fill(v.rpy_calibration, rng);
  fill(v.desire, rng);
  v.right_hand_drive = rng.one_in(2);
  v.lateral_action_time = any_float(rng);
  v.longitudinal_action_time = any_float(rng);
  v.speed = any_float(rng);
  return v;
}

std::vector<float> any_raw(Rng& rng) {
  std::vector<float> raw(rng.one_in(300) ? ipc::kMaxRawFloats : rng.one_in(2) ? 0 : rng.below(50));
  fill(raw, rng);
  return raw;
}

ipc::CabinSide any_side(Rng& rng) {
  ipc::CabinSide s;
  fill(s.face, rng);
  for (float* p : {&s.face_prob, &s.left_eye_prob, &s.right_eye_prob, &s.left_blink_prob,
                   &s.right_blink_prob, &s.sunglasses_prob, &s.using_phone_prob, &s.sleep_prob})
    *p = any_float(rng);
  return s;
}

ipc::ModelStatus any_status(Rng& rng) {
  ipc::ModelStatus m;
  m.name = any_text(rng);
  m.state = static_cast<ipc::ModelState>(rng.below(ipc::kModelStateCount));
  m.reason = static_cast<ipc::Reason>(rng.below(ipc::kReasonCount));
  m.text = any_text(rng);
  m.since_ns = static_cast<int64_t>(rng.next());
  m.bundle_path = any_text(rng);
  m.bundle_id = any_text(rng);
  m.device = any_text(rng);
  m.simulated = rng.one_in(2);
  m.context_frames = static_cast<uint32_t>(rng.next());
  m.resets = rng.next();
  m.frames_late = rng.next();
  m.compiled_calls = rng.next();
  m.ready_once = rng.one_in(2);
  return m;
}

// ---- words ----

Words words_of(const Bytes& bytes) {
  Words w(bytes.size() / 8);
  if (!w.empty()) std::memcpy(w.data(), bytes.data(), w.size() * 8);
  return w;
}

Bytes bytes_of_words(const Words& w) {
  Bytes b(w.size() * 8);
  if (!w.empty()) std::memcpy(b.data(), w.data(), b.size());
  return b;
}

// Where the pointers of a one-segment message stand, and the words of plain data beside them.
struct Layout {
  std::vector<size_t> pointers;
  std::vector<size_t> data;  // of structs: numbers and enums
};

class Walk {
 public:
  explicit Walk(const Words& w) : w_(w) {}
  Layout run() {
    pointer(1);
    return std::move(out_);
  }

 private:
  // A struct whose data begins at `at`.
  void body(size_t at, size_t data_words, size_t pointer_words) {
    for (size_t i = 0; i < data_words && at + i < w_.size() && steps_++ < kSteps; ++i)
      out_.data.push_back(at + i);
    for (size_t i = 0; i < pointer_words && steps_++ < kSteps; ++i) pointer(at + data_words + i);
  }
  void pointer(size_t at) {
    if (at >= w_.size()) return;
    const uint64_t p = w_[at];
    if (p == 0) return;
    out_.pointers.push_back(at);
    const auto offset = static_cast<int32_t>(static_cast<uint32_t>(p)) >> 2;
    const size_t to = at + 1 + static_cast<size_t>(static_cast<int64_t>(offset));
    if ((p & 3) == 0) body(to, p >> 32 & 0xffff, p >> 48);
    if ((p & 3) != 1 || (p >> 32 & 7) != 7 || to >= w_.size()) return;
    // A list of structs: its tag says how many and how large.
    const uint64_t tag = w_[to];
    const size_t data_words = tag >> 32 & 0xffff, pointer_words = tag >> 48;
    for (size_t i = 0; i < (static_cast<uint32_t>(tag) >> 2) && steps_++ < kSteps; ++i)
      body(to + 1 + i * (data_words + pointer_words), data_words, pointer_words);
  }

  // A message that is damaged already may go in circles.
  static constexpr size_t kSteps = 20'000;
  const Words& w_;
  size_t steps_ = 0;
  Layout out_;
};

// Puts `value` into bits [low, low + count).
uint64_t with_bits(uint64_t word, unsigned low, unsigned count, uint64_t value) {
  const uint64_t mask = ((uint64_t{1} << count) - 1) << low;
  return (word & ~mask) | (value << low & mask);
}

void damage_pointer(Words& w, size_t at, const Layout& layout, Rng& rng) {
  uint64_t& p = w[at];
  switch (rng.below(8)) {
    case 0:  // elsewhere
      p = with_bits(p, 2, 30, nasty(rng, p >> 2 & 0x3fffffff));
      break;
    case 1:  // to itself or a word before: a loop
      p = with_bits(p, 2, 30, ~rng.below(at + 1));
      break;
    case 2:  // struct: fewer or more data words
      p = with_bits(p, 32, 16, nasty(rng, p >> 32 & 0xffff));
      break;
    case 3:  // fewer or more pointers
      p = with_bits(p, 48, 16, nasty(rng, p >> 48));
      break;
    case 4:  // list: another element size
      p = with_bits(p, 32, 3, rng.below(8));
      break;
    case 5:  // another length
      p = with_bits(p, 35, 29, nasty(rng, p >> 35));
      break;
    case 6:  // another kind, far pointers too
      p = rng.one_in(2) ? 0 : with_bits(p, 0, 3, rng.below(8));
      break;
    default:  // what another pointer says
      p = w[layout.pointers[rng.below(layout.pointers.size())]];
      break;
  }
}

void damage_data(uint64_t& word, Rng& rng) {
  const auto field = static_cast<unsigned>(16 * rng.below(4));
  word = with_bits(word, field, 16, rng.one_in(2) ? rng.below(20) : nasty(rng, word >> field));
}

}  // namespace

ipc::VehicleMessage any_vehicle_message(Rng& rng) {
  return {any_header(rng), any_inputs(rng), any_text(rng)};
}

ipc::RoadMessage any_road_message(Rng& rng) {
  ipc::RoadMessage m;
  m.header = any_header(rng);
  m.road_frame_id = rng.next();
  m.wide_frame_id = rng.next();
  m.timings.sof_ns = static_cast<int64_t>(rng.next());
  m.timings.run_ns = static_cast<int64_t>(rng.next());
  m.run = {rng.below(9), rng.below(99), rng.one_in(2)};
  m.vehicle = any_inputs(rng);
  fill(m.plan, rng);
  fill(m.lane_lines, rng);
  fill(m.lane_line_probs, rng);
  fill(m.road_edges, rng);
  fill(m.leads, rng);
  fill(m.lead_probs, rng);
  fill(m.pose, rng);
  fill(m.road_transform, rng);
  fill(m.wide_from_device_euler, rng);
  fill(m.meta, rng);
  fill(m.desire_pred, rng);
  fill(m.desire_state, rng);
  fill(m.action, rng);
  m.has_action = rng.one_in(2);
  m.raw = any_raw(rng);
  return m;
}

ipc::CabinMessage any_cabin_message(Rng& rng) {
  ipc::CabinMessage m;
  m.header = any_header(rng);
  m.cabin_frame_id = rng.next();
  m.timings.eof_ns = static_cast<int64_t>(rng.next());
  m.run = {rng.below(9), rng.below(99), rng.one_in(2)};
  m.vehicle = any_inputs(rng);
  m.lhd = any_side(rng);
  m.rhd = any_side(rng);
  m.wheel_on_right_prob = any_float(rng);
  m.raw = any_raw(rng);
  return m;
}

ipc::StateMessage any_state_message(Rng& rng) {
  ipc::StateMessage m;
  m.header = any_header(rng);
  for (uint64_t n = rng.below(ipc::kMaxModels + 1); n > 0; --n) m.models.push_back(any_status(rng));
  m.source = any_text(rng);
  m.camera_connected = rng.one_in(2);
  m.pid = static_cast<uint32_t>(rng.next());
  m.start_ns = static_cast<int64_t>(rng.next());
  m.version = any_text(rng);
  return m;
}

ipc::MetricsMessage any_metrics_message(Rng& rng) {
  ipc::MetricsMessage m;
  m.header = any_header(rng);
  const auto rows = [&] { return rng.one_in(100) ? uint64_t{ipc::kMaxMetrics} : rng.below(10); };
  for (uint64_t n = rows(); n > 0; --n) m.counters.push_back({any_text(rng), any_double(rng)});
  for (uint64_t n = rows(); n > 0; --n)
    m.latencies.push_back({any_text(rng), rng.next(), 1, 2, static_cast<int64_t>(rng.next()), 4});
  return m;
}

Bytes in_two_segments(const Bytes& one_segment) {
  const Words w = words_of(one_segment);
  // Table: two segments of 1 and n words. Far pointer: word 0 of segment 1.
  Words out = {uint64_t{1} | uint64_t{1} << 32, w.size() - 1, uint64_t{2} | uint64_t{1} << 32};
  out.insert(out.end(), w.begin() + 1, w.end());
  return bytes_of_words(out);
}

void damage_message(Bytes& message, Rng& rng) {
  Words w = words_of(message);
  if (w.size() < 2) return;
  const Layout layout = Walk(w).run();
  const uint64_t how = rng.below(12);
  if (how < 5 && !layout.pointers.empty()) {
    damage_pointer(w, layout.pointers[rng.below(layout.pointers.size())], layout, rng);
  } else if (how < 8 && !layout.data.empty()) {
    // The first words are the envelope's: state, reason and member of the union.
    const size_t i = rng.one_in(2) ? rng.below(std::min<size_t>(layout.data.size(), 6))
                                   : rng.below(layout.data.size());
    damage_data(w[layout.data[i]], rng);
  } else if (how == 8) {
    w.resize(2 + rng.below(w.size() - 1));
  } else if (how == 9) {
    w.resize(w.size() + 1 + rng.below(20), rng.next());
  } else {  // text and list contents mostly
    Bytes b = bytes_of_words(w);
    b[8 + rng.below(b.size() - 8)] = rng.one_in(2) ? std::byte{0} : std::byte{0xff};
    w = words_of(b);
  }
  w[0] = uint64_t{w.size() - 1} << 32;
  message = bytes_of_words(w);
}

}  // namespace modeld::fuzz
