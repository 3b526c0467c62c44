// Fuzzes the ONNX importer: a damaged model is refused with one line, or what comes out is a whole
// graph: every output has a type and a shape, every buffer is an input or a weight of its size, and
// importing again gives the same. A crash, more than 4 GiB or 5 s of CPU time are findings.
#include <cstring>
#include <map>
#include <set>

#include "hal/base/bytes.h"
#include "hal/base/check.h"

#include "runtime/ir/print.h"
#include "runtime/ir/spec.h"

#include "models/onnx/onnx_import.h"
#include "models/reference/reference.h"

#include "selftest/fuzz/damage.h"
#include "selftest/fuzz/fuzz_main.h"
#include "selftest/fuzz/onnx_wire.h"

namespace modeld::fuzz {
namespace {

using onnx_import::ImportedModel;

// Bugs an importer could have; the fuzzer must see each.
enum class Defect : int {
  kNone = -1,
  kAcceptsDamage,  // a refused file is taken for the undamaged one
  kLosesInput,     // an input of the graph is not reported
  kLosesWeights,   // constants without their bytes
  kSilent,         // an error without text
  kTwoLines,       // an error of two lines
  kInputTwice,     // one input reported twice
  kUnstable,       // the second import gives another graph
  kUntyped,        // an output that no verifier accepts
};
const char* const kDefectNames[] = {
    "accepts a damaged file", "loses an input",        "loses weights",
    "error without text",     "error of two lines",    "reports an input twice",
    "second import differs",  "output without a type",
};

// The importer, or one with a bug.
struct Subject {
  Defect defect = Defect::kNone;
  const std::string* good = nullptr;
  int calls = 0;

  Result<ImportedModel> import(ir::Graph& g, const std::string& file) {
    ++calls;
    auto r = onnx_import::import_onnx_bytes(g, bytes_of(file), {}, "", "fuzz");
    if (!r.ok()) return fail(spoil(std::move(r).error(), g));
    switch (defect) {
      case Defect::kLosesInput:
        if (!r->inputs.empty()) r->inputs.pop_back();
        break;
      case Defect::kLosesWeights:
        r->weights = {};
        break;
      case Defect::kInputTwice:
        if (!r->inputs.empty()) r->inputs.push_back(r->inputs[0]);
        break;
      case Defect::kUnstable:
        if (calls % 2 == 0 && !r->outputs.empty())
          r->outputs[0].tensor = r->outputs[0].tensor.add(tensor::Scalar(1));
        break;
      case Defect::kUntyped:
        spoil_output(g, *r);
        break;
      default:
        break;
    }
    return r;
  }

 private:
  Error spoil(Error e, ir::Graph&) const {
    if (defect == Defect::kSilent) e.what.clear();
    if (defect == Defect::kTwoLines) e.what += "\nmore";
    return e;
  }
  // A float added to a bool without a cast: nothing builds that by accident.
  static void spoil_output(ir::Graph& g, ImportedModel& m) {
    if (m.outputs.empty()) return;
    const ir::Node* n = m.outputs[0].tensor.node();
    m.outputs[0].tensor =
        tensor::Tensor(g, g.make(ir::Op::kAdd, n->dtype, {n, ir::const_bool(g, true)}));
  }
};

std::string check_outputs(ir::Graph& g, const ImportedModel& m) {
  if (m.outputs.empty()) return "no outputs";
  for (const auto& o : m.outputs) {
    if (!o.tensor.valid()) return "output without a value";
    uint64_t bytes = static_cast<uint64_t>(ir::item_size(o.tensor.dtype()));
    if (ir::is_weak(o.tensor.dtype()) || o.tensor.dtype() == ir::DType::kVoid)
      return "output without a type";
    for (const int64_t d : o.tensor.dims()) {
      if (d < 0 || (d > 0 && bytes > (uint64_t{1} << 40) / static_cast<uint64_t>(d)))
        return "output " + o.name + " has no size";
      bytes *= static_cast<uint64_t>(d);
    }
  }
  return g.status().ok() ? "" : "graph has failed: " + g.status().error().what;
}

// Every BUFFER below the outputs is a reported input or a weight with its bytes.
std::string check_buffers(const ImportedModel& m, const ir::Node* root) {
  std::set<std::string> names;
  for (const auto& in : m.inputs)
    if (in.name.empty() || !names.insert(in.name).second) return "input '" + in.name + "' twice";
  for (const ir::Node* n : ir::toposort(root)) {
    if (!n->is(ir::Op::kBuffer)) continue;
    const auto& arg = n->as<ir::ParamArg>();
    if (const tensor::Weight* w = m.weights.find(arg.slot)) {
      const auto count = ir::int_value(n->src(0));
      if (!count || w->size_bytes() != *count * ir::item_size(n->dtype))
        return "weight of another size";
    } else if (names.count(arg.name) == 0) {
      return "buffer '" + arg.name + "' is neither input nor weight";
    }
  }
  return "";
}

const ir::Node* root_of(ir::Graph& g, const ImportedModel& m) {
  ir::NodeVec roots;
  for (const auto& o : m.outputs) roots.push_back(o.tensor.node());
  return ir::sink(g, roots);
}

std::string check_accepted(Subject& subject,
                           ir::Graph& g,
                           const ImportedModel& m,
                           const std::string& file) {
  if (m.sha256 != sha256(bytes_of(file))) return "not the identity of this file";
  if (std::string bad = check_outputs(g, m); !bad.empty()) return bad;
  const ir::Node* root = root_of(g, m);
  if (Status s = ir::verify_tensor(g, root); !s.ok()) return "verifier: " + s.error().what;
  if (std::string bad = check_buffers(m, root); !bad.empty()) return bad;
  ir::Graph other;
  auto again = subject.import(other, file);
  if (!again.ok()) return "second import refuses: " + again.error().what;
  if (ir::print(root) != ir::print(root_of(other, *again))) return "second import differs";
  return "";
}

CaseResult import_case(Subject subject, const std::string& file) {
  CaseResult out;
  const CaseTimer timer;
  ir::Graph g;
  auto m = subject.import(g, file);
  if (m.ok()) {
    out.past_header = out.accepted = true;
    out.finding = check_accepted(subject, g, *m, file);
  } else if (subject.defect == Defect::kAcceptsDamage) {
    ir::Graph other;
    auto good = subject.import(other, *subject.good);
    if (good.ok()) out.finding = check_accepted(subject, other, *good, file);
  } else {
    out.past_header = m.error().what.find("not an ONNX file") == std::string::npos;
    out.finding = must_be_clear(m.error());
  }
  if (out.finding.empty()) out.finding = timer.check(5);
  return out;
}

struct Seed {
  std::string file;
  std::vector<WireField> tree;
};

std::vector<Seed> make_seeds() {
  using reference::Role;
  using reference::Variant;
  std::vector<Seed> out;
  for (const auto& [role, variant, dtype] :
       {std::tuple{Role::kCabin, Variant::kClean, reference::Dtype::kF32},
        std::tuple{Role::kCabin, Variant::kNan, reference::Dtype::kF16},
        std::tuple{Role::kRoad, Variant::kInfSlice, reference::Dtype::kF32}}) {
    reference::ReferenceOptions o;
    o.role = role;
    o.size = reference::Size::kTiny;
    o.variant = variant;
    o.dtype = dtype;
    auto file = reference::make_reference(o);
    CHECK(file.ok());
    out.push_back({*file, read_wire(*file, Message::kModel)});
    CHECK(!out.back().tree.empty());
  }
  return out;
}

std::string damaged(const Seed& seed, Rng& rng) {
  if (rng.one_in(12)) {  // nothing repaired
    std::string raw = seed.file;
    for (uint64_t n = 1 + rng.below(4); n > 0; --n)
      raw[rng.below(raw.size())] ^= static_cast<char>(1 << rng.below(7));
    return raw;
  }
  if (rng.one_in(40)) return seed.file.substr(0, rng.below(seed.file.size()));
  std::vector<WireField> tree = seed.tree;
  damage_wire(tree, rng);
  return write_wire(tree);
}

Fuzzer make_fuzzer() {
  Fuzzer f;
  f.name = "fuzz_onnx";
  f.defects.assign(std::begin(kDefectNames), std::end(kDefectNames));
  f.self_proof_cases = 5'000;
  f.run_case = [seeds = make_seeds()](Rng& rng, int defect) {
    const Seed& seed = seeds[rng.below(seeds.size())];
    return import_case(Subject{static_cast<Defect>(defect), &seed.file}, damaged(seed, rng));
  };
  return f;
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld::fuzz;
  const std::string file(reinterpret_cast<const char*>(data), size);
  if (!import_case(Subject{}, file).finding.empty()) __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  modeld::fuzz::limit_memory();
  return modeld::fuzz::fuzz_main(argc, argv, modeld::fuzz::make_fuzzer());
}
#endif
