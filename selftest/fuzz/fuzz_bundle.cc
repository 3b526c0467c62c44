// Fuzzes the bundle reader: a damaged bundle is refused with one line, or everything in it can be
// followed. A crash, an unclear message and an accepted bundle that leaves its tables are findings.
#include <cstring>

#include "hal/base/mapping.h"

#include "models/bundle/bundle_reader.h"
#include "models/bundle/sample_bundle.h"

#include "selftest/fuzz/bundle_mutate.h"
#include "selftest/fuzz/bundle_oracle.h"
#include "selftest/fuzz/fuzz_main.h"

namespace modeld::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

bool is_past_header(const Bytes& file) {
  auto h = bundle::decode_header(file, "x");
  return h.ok() && blake2b(std::span(file).subspan(h->manifest_offset)) == h->manifest_hash;
}

// Uses everything an accepted bundle offers, so that a sanitizer sees a bad range.
std::string use(const bundle::Bundle& b) {
  const exec::Plan plan = b.to_plan(true);
  uint64_t sum = 0;
  const auto touch = [&](std::span<const std::byte> bytes) {
    for (const std::byte v : bytes) sum += std::to_integer<uint64_t>(v);
  };
  touch(b.sources().weights);
  for (const exec::ProgramRow& p : plan.programs) {
    if (p.image.code.size() != p.image.size) return "image of another size";
    sum += p.ast_text.size() + p.source.size();
  }
  for (const auto& g : b.manifest().golden)
    for (const auto& t : g.tensors) touch(b.golden(t));
  auto again = bundle::encode_manifest(b.manifest());
  if (!again.ok()) return "accepted manifest does not encode: " + again.error().what;
  return sum == ~uint64_t{0} ? "unlikely sum" : "";
}

CaseResult open_case(const Bytes& file, bundle::RuleMask left_out) {
  CaseResult out;
  out.past_header = is_past_header(file);
  auto fd = sealed_memfd("fuzz-bundle", file);
  if (!fd.ok()) {
    out.finding = "no memfd: " + fd.error().what;
    return out;
  }
  bundle::OpenOptions options;
  options.left_out_rules = left_out;
  auto b = bundle::Bundle::open_fd(std::move(*fd), "fuzz", options);
  if (!b.ok()) {
    if (!b.error().what.starts_with("bundle fuzz:") ||
        b.error().what.find('\n') != std::string::npos)
      out.finding = "message is not one clear line: " + b.error().what;
    return out;
  }
  out.accepted = true;
  out.finding = follow_bundle(file, (*b)->header(), (*b)->manifest());
  if (!out.finding.empty())
    out.finding = "accepted with bad " + out.finding;
  else
    out.finding = use(**b);
  return out;
}

Fuzzer make_fuzzer() {
  Fuzzer f;
  f.name = "fuzz_bundle";
  const auto rules = bundle::rules();
  for (const bundle::Rule& r : rules) f.defects.push_back(std::string("no check of ") + r.name);
  f.defects.push_back("no check of the manifest hash");
  f.defects.push_back("no check of the signature");
  const size_t n = rules.size();
  f.run_case = [mutator = BundleMutator(bundle::sample_bundle()), n](Rng& rng, int defect) {
    bundle::RuleMask left_out = 0;
    if (defect >= 0) {
      const auto d = static_cast<size_t>(defect);
      left_out = d < n    ? bundle::RuleMask{1} << d
                 : d == n ? bundle::kLeaveOutManifestHash
                          : bundle::kLeaveOutSignature;
    }
    return open_case(mutator.damaged(rng), left_out);
  };
  return f;
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
// clang's fuzzer brings its own mutation: the bytes are a bundle.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld;
  if (size == 0) return 0;
  std::vector<std::byte> file(size);
  std::memcpy(file.data(), data, size);
  if (!fuzz::open_case(file, 0).finding.empty()) __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  return modeld::fuzz::fuzz_main(argc, argv, modeld::fuzz::make_fuzzer());
}
#endif
