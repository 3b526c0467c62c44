#include "selftest/fuzz/graph_program.h"

#include <utility>

#include "hal/base/status.h"

namespace modeld::fuzz {

namespace {

// How a step prints. `dims_a`: what `a` and `b` are called; nullptr = not shown.
struct Row {
  const char* word;
  bool makes_tensor = true;
  bool counts = true;  // as a node
  const char* a = nullptr;
  const char* b = nullptr;
  bool shows_type = false;
  bool shows_device = false;
};

const Row& row(StepKind kind) {
  static constexpr Row kRows[] = {
      {"input", true, false, "", nullptr, true, true},
      {"full", true, false, "", nullptr, true, false},
      {"variable", true, false, "range", nullptr, false, false},
      {"alu", true, true},
      {"cast", true, true, nullptr, nullptr, true, false},
      {"reshape", true, true, ""},
      {"permute", true, true, ""},
      {"expand", true, true, ""},
      {"pad", true, true, "before", "after"},
      {"shrink", true, true, "from", "size"},
      {"flip", true, true, "axes"},
      {"reduce", true, true, "axes"},
      {"cat", true, true, "axis"},
      {"contiguous", true, true},
      {"copy", true, true, nullptr, nullptr, false, true},
      {"shard", true, true, "axis,devices"},
      {"assign", false, true},
      {"realize", false, false},
      {"drop", false, false},
      {"track", false, false},
  };
  return kRows[static_cast<size_t>(kind)];
}

std::string list(const Ints& v) {
  std::string out;
  for (const int64_t x : v) out += (out.empty() ? "" : ",") + std::to_string(x);
  return "[" + out + "]";
}

std::string data_text(const std::vector<double>& data) {
  constexpr size_t kMost = 24;
  std::string out = " =";
  for (size_t i = 0; i < data.size() && i < kMost; ++i) out += strf(" %g", data[i]);
  return data.size() > kMost ? out + strf(" ... (%zu)", data.size()) : out;
}

std::string print(const Step& s, size_t number) {
  const Row& r = row(s.kind);
  std::string out = r.makes_tensor ? strf("t%zu = ", number) : "";
  out += s.kind == StepKind::kAlu || s.kind == StepKind::kReduce
             ? strf("%s%s", s.kind == StepKind::kReduce ? "reduce " : "", ir::op_name(s.op))
             : r.word;
  if (r.shows_type) out += strf(" %s", ir::dtype_name(s.dtype));
  if (!s.name.empty()) out += " " + s.name;
  for (const size_t a : s.args) out += strf(" t%zu", a);
  if (r.a != nullptr) out += std::string(" ") + r.a + list(s.a);
  if (r.b != nullptr) out += std::string(" ") + r.b + list(s.b);
  if (r.shows_device) out += " " + device_name(s.device);
  if (!s.data.empty()) out += data_text(s.data);
  if (s.must_fail) out += "  (to be refused)";
  return out + "\n";
}

}  // namespace

Step step_of(StepKind kind, std::vector<size_t> args) {
  Step s;
  s.kind = kind;
  s.args = std::move(args);
  return s;
}

const char* step_word(StepKind kind) {
  return row(kind).word;
}

bool makes_tensor(StepKind kind) {
  return row(kind).makes_tensor;
}

bool is_movement(StepKind kind) {
  return kind >= StepKind::kReshape && kind <= StepKind::kFlip;
}

size_t node_count(const Program& program) {
  size_t n = 0;
  for (const Step& s : program.steps) n += row(s.kind).counts ? 1 : 0;
  return n;
}

std::string print(const Program& program) {
  std::string out;
  for (size_t i = 0; i < program.steps.size(); ++i) out += "  " + print(program.steps[i], i);
  return out;
}

std::string device_name(int device) {
  return device == 0 ? "CPU" : strf("CPU:%d", device);
}

}  // namespace modeld::fuzz
