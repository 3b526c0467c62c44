// Reader of the text form. The text may come from a bundle, so nothing in it is trusted: every
// number, name and reference is checked, and the error names the line.
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/ir/print.h"

namespace modeld::ir {
namespace {

constexpr size_t kMaxNodes = 4000000;
constexpr size_t kMaxSources = 100000;

// Cursor over one line.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  bool failed() const { return failed_; }
  bool done() const { return at_ >= text_.size(); }
  void fail_here() { failed_ = true; }

  void spaces() {
    while (!done() && text_[at_] == ' ') ++at_;
  }
  bool accept(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) failed_ = true;
  }
  char peek() const { return done() ? '\0' : text_[at_]; }
  std::string_view word() {
    const size_t start = at_;
    while (!done() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    return text_.substr(start, at_ - start);
  }
  template <class T>
  T number(int base = 10) {
    T v{};
    const auto r = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v, base);
    if (r.ec != std::errc{}) {
      failed_ = true;
      return T{};
    }
    at_ = static_cast<size_t>(r.ptr - text_.data());
    return v;
  }
  std::string quoted() {
    std::string out;
    expect("\"");
    while (!failed_ && peek() != '"') {
      char c = peek();
      if (c == '\\') {
        ++at_;
        c = peek() == 'n' ? '\n' : peek();
      }
      if (done()) {
        failed_ = true;
        break;
      }
      out += c;
      ++at_;
    }
    expect("\"");
    return out;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
};

Ints ints(Scanner& s) {
  Ints out;
  if (s.peek() != '-' && std::isdigit(static_cast<unsigned char>(s.peek())) == 0) return out;
  do out.push_back(s.number<int64_t>());
  while (!s.failed() && s.accept(","));
  return out;
}

template <class T, class NameOf>
T named(Scanner& s, int count, NameOf name_of) {
  const std::string_view w = s.word();
  for (int i = 0; i < count; ++i) {
    if (w == name_of(static_cast<T>(i))) return static_cast<T>(i);
  }
  s.fail_here();
  return T{};
}

AddrSpace space(Scanner& s) {
  static constexpr std::string_view kNames[] = {"global", "local", "reg", "alu"};
  return named<AddrSpace>(s, 4, [](AddrSpace a) { return kNames[static_cast<size_t>(a)]; });
}

Opts opts(Scanner& s) {
  Opts out;
  s.expect("[");
  while (!s.failed() && !s.accept("]")) {
    s.spaces();
    Opt o;
    const std::string_view w = s.word();
    static constexpr std::string_view kNames[] = {"TC",    "UPCAST",   "UNROLL", "LOCAL",
                                                  "GROUP", "GROUPTOP", "THREAD", "NOLOCALS",
                                                  "PADTO", "SWAP"};
    bool found = false;
    for (size_t i = 0; i < std::size(kNames); ++i) {
      if (w != kNames[i]) continue;
      o.op = static_cast<OptOp>(i);
      found = true;
    }
    if (!found) s.fail_here();
    if (o.op != OptOp::kNoLocals) {
      s.expect("(");
      o.axis = s.number<int64_t>();
      s.expect(",");
      o.arg = s.number<int64_t>();
      s.expect(")");
    }
    out.push_back(o);
    s.spaces();
  }
  return out;
}

ParamArg param_arg(Scanner& s) {
  ParamArg p;
  s.expect(" slot=");
  p.slot = s.number<int64_t>();
  s.expect(" space=");
  p.addrspace = space(s);
  s.expect(" vmin=");
  p.vmin = s.number<int64_t>();
  s.expect(" vmax=");
  p.vmax = s.number<int64_t>();
  s.expect(" mult=");
  p.multiple_of = s.number<int64_t>();
  s.expect(" vol=");
  p.is_volatile = s.number<int>() != 0;
  s.expect(" name=");
  p.name = s.quoted();
  s.expect(" device=");
  p.device = s.quoted();
  if (s.accept(" axis=")) p.axis = s.number<int64_t>();
  return p;
}

KernelInfo kernel_info(Scanner& s) {
  KernelInfo k;
  s.expect(" name=");
  k.name = s.quoted();
  s.expect(" applied=");
  k.applied_opts = opts(s);
  s.expect(" apply=");
  if (!s.accept("auto")) k.opts_to_apply = opts(s);
  s.expect(" nolocals=");
  k.dont_use_locals = s.number<int>() != 0;
  s.expect(" beam=");
  k.beam = s.number<int64_t>();
  return k;
}

ProgramInfo program_info(Scanner& s) {
  ProgramInfo p;
  s.expect(" name=");
  p.name = s.quoted();
  s.expect(" globals=");
  p.globals = ints(s);
  s.expect(" outs=");
  p.outs = ints(s);
  s.expect(" ins=");
  p.ins = ints(s);
  s.expect(" vars=");
  while (!s.failed() && s.peek() == '"') p.vars.push_back(s.quoted());
  for (int64_t& v : p.global_size) {
    s.expect(" g");
    v = s.number<int64_t>();
  }
  for (int64_t& v : p.local_size) {
    s.expect(" l");
    v = s.number<int64_t>();
  }
  s.expect(" flops=");
  p.flops = s.number<int64_t>();
  s.expect(" lds=");
  p.lds_bytes = s.number<int64_t>();
  s.expect(" mem=");
  p.mem_bytes = s.number<int64_t>();
  return p;
}

Arg float_arg(Scanner& s) {
  if (s.accept("nan")) return std::numeric_limits<double>::quiet_NaN();
  s.expect("0x");
  return std::bit_cast<double>(s.number<uint64_t>(16));
}

RangeArg range_arg(Scanner& s) {
  RangeArg r;
  r.id = s.number<int64_t>();
  s.expect(" ");
  r.type = named<AxisType>(s, static_cast<int>(AxisType::kPlaceholder) + 1, axis_name);
  return r;
}

Op op_word(Scanner& s) {
  const auto op = op_from_name(s.word());
  if (!op) s.fail_here();
  return op.value_or(Op::kAdd);
}

ReduceArg reduce_arg(Scanner& s) {
  ReduceArg r;
  r.op = op_word(s);
  s.expect(" ");
  r.axes = s.number<int64_t>();
  return r;
}

StageArg stage_arg(Scanner& s) {
  StageArg a;
  a.addrspace = space(s);
  s.expect(" ");
  a.removable = s.number<int>() != 0;
  s.expect(" device=");
  a.device = s.quoted();
  return a;
}

AllReduceArg all_reduce_arg(Scanner& s) {
  AllReduceArg a;
  a.op = op_word(s);
  s.expect(" device=");
  a.device = s.quoted();
  return a;
}

WmmaArg wmma_arg(Scanner& s) {
  WmmaArg w;
  s.expect(" core=");
  w.core = s.quoted();
  s.expect(" a=");
  w.a_axes = ints(s);
  s.expect(" b=");
  w.b_axes = ints(s);
  return w;
}

Arg argument(Scanner& s) {
  const std::string_view kind = s.word();
  if (kind == "param") return param_arg(s);
  if (kind == "kernel") return kernel_info(s);
  if (kind == "program") return program_info(s);
  if (kind == "wmma") return wmma_arg(s);
  if (kind == "invalid") return Invalid{};
  s.expect(" ");
  if (kind == "int") return s.number<int64_t>();
  if (kind == "float") return float_arg(s);
  if (kind == "bool") return s.number<int>() != 0;
  if (kind == "str") return s.quoted();
  if (kind == "ints") return ints(s);
  if (kind == "range") return range_arg(s);
  if (kind == "reduce") return reduce_arg(s);
  if (kind == "allreduce") return all_reduce_arg(s);
  if (kind == "stage") return stage_arg(s);
  if (kind == "opts") return opts(s);
  s.fail_here();
  return {};
}

const Node* node(Graph& g, Scanner& s, const NodeVec& known) {
  s.expect("%");
  if (s.number<size_t>() != known.size()) s.fail_here();
  s.expect(" = ");
  const auto op = op_from_name(s.word());
  s.expect(" ");
  const auto dtype = dtype_from_name(s.word());
  NodeVec src;
  while (!s.failed() && s.accept(" %")) {
    const auto i = s.number<size_t>();
    if (s.failed() || i >= known.size() || src.size() >= kMaxSources) {
      s.fail_here();
      break;
    }
    src.push_back(known[i]);
  }
  uint32_t tag = 0;
  if (s.accept(" #")) tag = s.number<uint32_t>();
  Arg arg;
  if (s.accept(" {")) {
    arg = argument(s);
    s.expect("}");
  }
  const bool arity_ok = op && (op_arity(*op) < 0 || op_arity(*op) == static_cast<int>(src.size()));
  if (s.failed() || !s.done() || !op || !dtype || !arity_ok) return nullptr;
  const Node* n = g.make(*op, *dtype, src, std::move(arg), tag);
  // Numbers the text uses are taken: what the passes add must not share them.
  if (n->has<RangeArg>()) g.reserve_fresh(n->as<RangeArg>().id);
  if (n->op == Op::kBuffer && n->has<ParamArg>()) g.reserve_fresh(n->as<ParamArg>().slot);
  return n;
}

}  // namespace

Result<Opts> parse_opts(std::string_view text) {
  Scanner s(text);
  Opts out = opts(s);
  if (s.failed() || !s.done())
    return fail(Errc::kInvalid,
                strf("'%.80s' is no list of opts", std::string(text.substr(0, 80)).c_str()));
  return out;
}

Result<const Node*> parse(Graph& g, std::string_view text) {
  NodeVec known;
  size_t line = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = text.find('\n');
    const std::string_view row = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (row.empty()) continue;
    if (known.size() >= kMaxNodes)
      return fail(Errc::kInvalid, strf("graph text: more than %zu nodes", kMaxNodes));
    Scanner s(row);
    const Node* n = node(g, s, known);
    if (n == nullptr) {
      return fail(Errc::kInvalid, strf("graph text: line %zu is not a node: %.80s", line,
                                       std::string(row.substr(0, 80)).c_str()));
    }
    known.push_back(n);
  }
  if (known.empty()) return fail(Errc::kInvalid, "graph text: empty");
  return known.back();
}

}  // namespace modeld::ir
