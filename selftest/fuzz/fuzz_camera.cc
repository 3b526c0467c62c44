// Fuzzes everything that comes beside the camera's pixels: handshake, frame and release packets,
// .y4m files, source strings, and the packets between supervisor and worker. The packets are read a
// second time by plain code of the fuzzer's own: a parser that takes more or less than that, or
// reads another value, is a finding.
#include <cstring>

#include "selftest/fuzz/camera_cases.h"

namespace modeld::fuzz {
namespace {

const Family* const* families() {
  static const Family* const kAll[] = {&camera_packets(), &hop_packets(), &source_texts()};
  return kAll;
}
constexpr size_t kFamilies = 3;

// A defect belongs to one family: only its cases can show it.
CaseResult run_case(Rng& rng, int defect) {
  const CaseTimer timer;
  size_t which = rng.below(kFamilies);
  int local = -1;
  for (size_t f = 0, first = 0; defect >= 0 && f < kFamilies; ++f) {
    const size_t n = families()[f]->defects.size();
    const auto d = static_cast<size_t>(defect);
    if (d >= first && d < first + n) {
      which = f;
      local = static_cast<int>(d - first);
    }
    first += n;
  }
  CaseResult out = families()[which]->run(rng, local);
  if (out.finding.empty()) out.finding = timer.check();
  return out;
}

[[maybe_unused]] Fuzzer make_fuzzer() {
  Fuzzer f;
  f.name = "fuzz_camera";
  f.run_case = run_case;
  for (size_t i = 0; i < kFamilies; ++i)
    for (const char* d : families()[i]->defects) f.defects.emplace_back(d);
  return f;
}

}  // namespace
}  // namespace modeld::fuzz

#ifdef MODELD_LIBFUZZER
// The first byte chooses the family.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace modeld::fuzz;
  if (size == 0) return 0;
  Bytes bytes(size - 1);
  if (size > 1) std::memcpy(bytes.data(), data + 1, size - 1);
  if (!families()[data[0] % kFamilies]->look(bytes).finding.empty()) __builtin_trap();
  return 0;
}
#else
int main(int argc, char** argv) {
  modeld::fuzz::limit_memory();
  return modeld::fuzz::fuzz_main(argc, argv, modeld::fuzz::make_fuzzer());
}
#endif
