// Fuzzes the reader of graph text (it comes out of bundles): what is accepted prints back and reads
// to the same node again, has the sources its ops need, and can be shown to every verifier. Node
// numbers are repaired after the damage.
#include <algorithm>
#include <cctype>
#include <cstring>

#include "runtime/ir/print.h"
#include "runtime/ir/spec.h"

#include "selftest/fuzz/damage.h"
#include "selftest/fuzz/ir_make.h"

namespace modeld::fuzz {
namespace {

using ir::Graph;
using ir::Node;

enum class Defect : int {
  kNone = -1,
  kLosesTag,       // "#7" is passed over
  kLosesFlag,      // vol=1 is read as 0
  kSwapsSources,   // sources in reverse order
  kAnyArity,       // an op with too many sources
  kRefusesGood,    // printed text is refused
  kNameless,       // an error that names no line
  kTwoLines,       // an error of two lines
  kOtherGraph,     // a node that the graph does not own
  kAcceptsDamage,  // refused text gives some node
};
const char* const kDefectNames[] = {
    "loses tags",         "loses a flag",          "reverses sources",
    "no check of arity",  "refuses printed text",  "error without a line",
    "error of two lines", "node of another graph", "more nodes than lines",
};

// ---- the reader, or one with a bug ----

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

std::string without_tags(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, " #") == 0) {
      i += 2;
      while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0) ++i;
      if (i == text.size()) break;
    }
    out += text[i];
  }
  return out;
}

const Node* reversed(Graph& g, const Node* n) {
  ir::NodeVec src(n->src().begin(), n->src().end());
  return g.with_src(n, ir::NodeVec(src.rbegin(), src.rend()));
}

Result<const Node*> spoil_error(Graph& g, Error e, Defect defect) {
  const Node* one = ir::const_int(g, 1);
  if (defect == Defect::kNameless) e.what = "wrong";
  if (defect == Defect::kTwoLines) e.what += "\nmore";
  if (defect == Defect::kAnyArity) return g.make(ir::Op::kAdd, one->dtype, {one, one, one});
  if (defect == Defect::kAcceptsDamage) return long_chain(g, 1000);
  return fail(std::move(e));
}

Result<const Node*> read(Graph& g, std::string text, Defect defect) {
  static Graph other;
  if (defect == Defect::kLosesTag) text = without_tags(text);
  if (defect == Defect::kLosesFlag) replace_all(text, " vol=1", " vol=0");
  Result<const Node*> r = ir::parse(defect == Defect::kOtherGraph ? other : g, text);
  if (!r.ok()) return spoil_error(g, r.error(), defect);
  if (defect == Defect::kSwapsSources) return reversed(g, *r);
  if (defect == Defect::kRefusesGood) return fail(Errc::kInvalid, "graph text: line 1");
  return r;
}

// ---- what must hold ----

std::string check_nodes(const Node* root, const std::string& text) {
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const ir::NodeVec nodes = ir::toposort(root, true);
  if (nodes.size() > lines) return strf("%zu nodes from %zu lines", nodes.size(), lines);
  for (const Node* n : nodes) {
    const int arity = ir::op_arity(n->op);
    if (arity >= 0 && n->nsrc != static_cast<uint32_t>(arity))
      return strf("%s with %u sources", ir::op_name(n->op), n->nsrc);
    for (const Node* s : n->src())
      if (s->id >= n->id) return "a source that comes after its user";
  }
  return "";
}

// Verifiers may refuse, but with one clear line; what they accept can be shown in messages.
std::string check_verifiers(Graph& g, const Node* root) {
  using Verify = Status (*)(Graph&, const Node*);
  for (const Verify verify :
       {ir::verify_kernel, ir::verify_kernel_graph, ir::verify_program, ir::verify_tensor}) {
    const Status s = verify(g, root);
    if (s.ok())
      (void)ir::expr(root);
    else if (std::string bad = must_be_clear(s.error()); !bad.empty())
      return "verifier: " + bad;
  }
  return "";
}

std::string check_accepted(Graph& g, const Node* root, const std::string& text, Defect defect) {
  if (std::string bad = check_nodes(root, text); !bad.empty()) return bad;
  const std::string printed = ir::print(root);
  const Result<const Node*> same = read(g, printed, defect);
  if (!same.ok()) return "what was accepted is refused when printed: " + same.error().what;
  if (*same != root) return "what was accepted reads to another node when printed";
  Graph other;
  const Result<const Node*> copy = read(other, printed, defect);
  if (!copy.ok()) return "another graph refuses: " + copy.error().what;
  if ((*copy)->id >= other.node_count()) return "a node that the graph does not own";
  if (ir::print(*copy) != printed) return "another graph prints differently";
  return check_verifiers(g, root);
}

std::string check_refused(const Error& e) {
  if (std::string bad = must_be_clear(e); !bad.empty()) return bad;
  return e.what.starts_with("graph text: ") ? "" : "error does not name the text: " + e.what;
}

CaseResult parse_case(const std::string& text, bool is_good, Defect defect) {
  CaseResult out;
  const CaseTimer timer;
  Graph g;
  const Result<const Node*> r = read(g, text, defect);
  out.accepted = r.ok();
  if (r.ok()) {
    out.past_header = true;
    out.finding = check_accepted(g, *r, text, defect);
    if (out.finding.empty() && is_good && ir::print(*r) != text)
      out.finding = "printed text reads to something else";
  } else {
    unsigned line = 0;
    (void)!sscanf(r.error().what.c_str(), "graph text: line %u", &line);
    out.past_header = line > 2;
    out.finding = is_good ? "printed text is refused: " + r.error().what : check_refused(r.error());
  }
  if (out.finding.empty()) out.finding = timer.check();
  return out;
}

// ---- cases ----

constexpr std::string_view kWords[] = {
    " %0",
    " %1 %1",
    "%999999",
    " #7",
    " {int 3}",
    " {int -9223372036854775808}",
    " {}",
    " {nan}",
    "{float nan}",
    "{float 0x7ff0000000000000}",
    "{range 3 reduce}",
    "{ints 1,2,3}",
    "{ints 1,}",
    "{reduce max 1}",
    "{reduce add 9223372036854775807}",
    "{invalid}",
    "{bool 7}",
    "{str \"\\\"}",
    "{opts [UPCAST(0,4) NOLOCALS]}",
    "{opts [}",
    "{stage local 1 device=\"\"}",
    "{kernel}",
    "\n",
    "add weakint %0 %0",
    "reshape f32 %0 %1",
    "permute f32 %0 {ints 0,0}",
    "expand f32 %0 %1",
    "pad f32 %0 %1 %2",
    "shrink f32 %0 %1 %2",
    "reduce f32 %0 {reduce add 1}",
    "stack weakint %0 %0",
    "flip f32 %0 {ints 1}",
    "where",
    "f32",
    "weakint",
    "void",
    "bool",
    "u64",
    "index f32 %0 %1",
    "const weakint {int 4294967296}",
    "range weakint %0 {range 1 loop}",
    "after f32 %0 %1",
    "buffer f32 %0 {param slot=1 space=global vmin=0 vmax=0 mult=1 vol=0 name=\"\" device=\"CPU\"}",
    "call void %0 %1",
    "function void %0",
    "tuple void %0",
    "get_tuple f32 %0 {int 0}",
    "m_stack f32",
    "unshard f32 %0",
    "m_select f32 %0 {int 0}",
    "bit_cast u8 %0",
    "end_if void %0",
    "if void %0",
};

// Each line gets the number it must have, so that damage is seen by what comes after.
std::string renumbered(const std::string& text) {
  std::string out;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string row = text.substr(at, end - at);
    at = end + 1;
    if (row.empty()) continue;
    const size_t equals = row.find(" = ");
    if (row[0] == '%' && equals != std::string::npos) row.erase(0, equals + 3);
    out += "%" + std::to_string(number++) + " = " + row + "\n";
  }
  return out;
}

CaseResult run_case(Rng& rng, int defect) {
  Graph g;
  const Node* root = rng.one_in(3000) ? long_chain(g, 20'000 + rng.below(30'000))
                     : rng.one_in(2)  ? any_kernel(g, rng)
                                      : any_graph(g, rng);
  std::string text = ir::print(root);
  const auto d = static_cast<Defect>(defect);
  if (rng.one_in(6)) return parse_case(text, true, d);
  for (uint64_t n = 1 + rng.below(3); n > 0; --n) damage_text(text, rng, kWords);
  return parse_case(rng.one_in(10) ? text : renumbered(text), false, d);
}

[[maybe_unused]] Fuzzer make_fuzzer() {
  return {"fuzz_ir_text", run_case, {std::begin(kDefectNames), std::end(kDefectNames)}};
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld::fuzz;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!parse_case(text, false, Defect::kNone).finding.empty()) __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace modeld::fuzz;
  limit_memory();
  return fuzz_main(argc, argv, make_fuzzer());
}
#endif
