#include "runtime/exec/jit_saved.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "hal/base/fs.h"
#include "hal/base/hash.h"
#include "hal/base/proc.h"

#include "selftest/testing/jit_lab.h"

namespace modeld::exec::test {
namespace {

using Bytes = std::vector<std::byte>;

// y = (x + 1) * w, n = n + 1, and a temporary: held constants, state and an arena.
struct Sample {
  explicit Sample(SessionOptions options = lab_options()) : lab(std::move(options)) {
    w = lab.floats({2, 3});
    count = lab.floats({0});
    jit = std::make_unique<Jit>(lab.s, [this](Session& s, const JitArgs& a) -> Result<Lives> {
      RETURN_IF_ERROR(s.assign(count, s.value(count) + 1.0));
      const Tensor t = (s.value(a.at(0)) + 1.0).contiguous();
      return Lives{s.track((t * s.value(w)).contiguous()), count};
    });
  }
  Bytes capture(int calls = 3) {
    for (int i = 0; i < calls; ++i) lab.call(*jit, {lab.floats({1, 2})});
    auto bytes = jit->save();
    EXPECT_TRUE(bytes.ok()) << (bytes.ok() ? "" : bytes.error().what);
    return bytes.ok() ? std::move(*bytes) : Bytes{};
  }

  JitLab lab;
  Live w, count;
  std::unique_ptr<Jit> jit;
};

// Options of a place where nothing can be compiled.
SessionOptions without_compiler() {
  SessionOptions o = lab_options();
  o.compile.program_cache = make_program_cache();
  o.compile.assert_no_compile = true;
  o.compile.clang = "/nonexistent/clang";
  return o;
}

std::unique_ptr<Jit> load(JitLab& lab, const Bytes& bytes) {
  auto jit = Jit::load(lab.s, bytes);
  EXPECT_TRUE(jit.ok()) << (jit.ok() ? "" : jit.error().what);
  return jit.ok() ? std::move(*jit) : nullptr;
}

Errc refusal(const Bytes& bytes, SessionOptions options = lab_options()) {
  JitLab lab(std::move(options));
  const auto jit = Jit::load(lab.s, bytes);
  EXPECT_FALSE(jit.ok());
  return jit.ok() ? Errc::kOk : jit.error().code;
}

// The payload's size and hash in the header, after a change.
Bytes repaired(Bytes file) {
  if (file.size() < 64) return file;
  const std::span<const std::byte> payload = std::span(file).subspan(64);
  const uint64_t size = payload.size();
  const Hash256 hash = blake2b(payload);
  std::memcpy(file.data() + 16, &size, sizeof(size));
  std::memcpy(file.data() + 32, hash.bytes.data(), hash.bytes.size());
  return file;
}

TEST(JitSaved, LoadsAtCntTwoAndRunsWithoutFunctionOrCompiler) {
  Sample sample;
  const Bytes bytes = sample.capture();
  JitLab other(without_compiler());
  const auto jit = load(other, bytes);
  ASSERT_NE(jit, nullptr);
  EXPECT_EQ(jit->cnt(), 2);
  for (const float v : {1.f, 5.f}) {
    const auto r = jit->call({other.floats({v, v})});
    ASSERT_TRUE(r.ok()) << r.error().what;
    EXPECT_EQ(other.read((*r)[0]), (Values{2 * (v + 1.), 3 * (v + 1.)})) << "w came with the file";
  }
  EXPECT_EQ(other.s.stats().compile.kernels, 0u);
}

TEST(JitSaved, StateGoesOnWhereItWasSaved) {
  Sample sample;
  const Bytes bytes = sample.capture(4);
  JitLab other(without_compiler());
  const auto jit = load(other, bytes);
  ASSERT_NE(jit, nullptr);
  const auto r = jit->call({other.floats({0, 0})});
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(other.read((*r)[1]), Values{5});
  EXPECT_EQ(sample.lab.read(sample.count), Values{4}) << "two Jits, two states";
}

TEST(JitSaved, ItsInputsAreCheckedAsThoseOfTheOriginal) {
  Sample sample;
  const Bytes bytes = sample.capture();
  JitLab other;
  const auto jit = load(other, bytes);
  ASSERT_NE(jit, nullptr);
  EXPECT_EQ(fault_of_call(*jit, {other.floats({1, 2, 3})}), Fault::kArgsMismatch);
  EXPECT_EQ(fault_of_call(*jit, {}), Fault::kArgsMismatch);
  Live fed_back = other.call(*jit, {other.floats({0, 0})});
  EXPECT_EQ(other.value(*jit, {fed_back}), (Values{6, 12}));
  EXPECT_EQ(jit->staged_copies(), 1u);
}

TEST(JitSaved, AResultThatIsTheArgumentFollowsItAfterALoad) {
  JitLab lab;
  Jit jit(lab.s, [](Session& s, const JitArgs& a) -> Result<Lives> {
    return Lives{a.at(0), s.track(s.value(a.at(0)) + 1.0)};
  });
  for (int i = 0; i < 2; ++i) lab.call(jit, {lab.floats({1, 2})});
  JitLab other;
  const auto loaded = load(other, *jit.save());
  ASSERT_NE(loaded, nullptr);
  for (const float v : {3.f, 4.f}) {
    const auto r = loaded->call({other.floats({v, v})});
    ASSERT_TRUE(r.ok()) << r.error().what;
    EXPECT_EQ(other.read((*r)[0]), (Values{v, v}));
    EXPECT_EQ(other.read((*r)[1]), (Values{v + 1., v + 1.}));
  }
}

TEST(JitSaved, ALoadedOneCannotBeResetAndAnUncapturedOneNotSaved) {
  Sample sample;
  EXPECT_EQ(ir::fault_of(sample.jit->save().error()), Fault::kNotCaptured);
  sample.lab.call(*sample.jit, {sample.lab.floats({1, 2})});
  EXPECT_EQ(ir::fault_of(sample.jit->save().error()), Fault::kNotCaptured) << "after one call";
  const Bytes bytes = sample.capture();
  JitLab other;
  const auto jit = load(other, bytes);
  ASSERT_NE(jit, nullptr);
  EXPECT_EQ(ir::fault_of(jit->reset().error()), Fault::kNoFunction);
  EXPECT_TRUE(jit->call({other.floats({1, 2})}).ok()) << "still usable";
}

TEST(JitSaved, EqualJitsGiveEqualBytes) {
  Sample a, b;
  const Bytes first = a.capture();
  EXPECT_EQ(first, b.capture());
  JitLab other;
  const auto jit = load(other, first);
  ASSERT_NE(jit, nullptr);
  EXPECT_EQ(*jit->save(), first) << "also after a load";
}

TEST(JitSaved, SavingAfterFreeIntermediatesLosesNothing) {
  Sample sample;
  const Bytes before = sample.capture();
  ASSERT_TRUE(sample.jit->free_intermediates().ok());
  EXPECT_EQ(*sample.jit->save(), before);
}

TEST(JitSaved, OtherConfigurationsAndTargetsAreRefused) {
  Sample sample;
  const Bytes bytes = sample.capture();
  SessionOptions optimised = lab_options();
  optimised.compile.noopt = false;
  EXPECT_EQ(refusal(bytes, optimised), Errc::kMismatch);
  SessionOptions arm = lab_options();
  arm.compile.target = *hal::parse_target("cpu:aarch64");
  EXPECT_EQ(refusal(bytes, arm), Errc::kMismatch);
  SessionOptions threads = lab_options();
  threads.compile.target = *hal::parse_target("cpu");
  threads.compile.target.threads += 1;
  EXPECT_EQ(refusal(bytes, threads), Errc::kMismatch);
  SessionOptions renderer = lab_options();
  renderer.compile.target = *hal::parse_target("cpu");
  renderer.compile.target.renderer = "x86";
  EXPECT_NE(refusal(bytes, renderer), Errc::kOk);
  SessionOptions features = lab_options();
  features.compile.target = *hal::parse_target("cpu");
  features.compile.target.features.push_back("zz-new-unit");
  EXPECT_EQ(refusal(bytes, features), Errc::kMismatch);
}

TEST(JitSaved, OtherFormatsAreRefused) {
  Sample sample;
  Bytes bytes = sample.capture();
  bytes[8] = std::byte{kJitFormat + 1};
  EXPECT_EQ(refusal(bytes), Errc::kMismatch);
  bytes[8] = std::byte{kJitFormat};
  bytes[0] = std::byte{'M'};
  EXPECT_EQ(refusal(bytes), Errc::kCorrupt);
}

TEST(JitSaved, EveryFlippedBitAndEveryCutIsSeen) {
  Sample sample;
  const Bytes bytes = sample.capture();
  for (size_t i = 0; i < bytes.size(); i += 97) {
    Bytes damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(decode_jit(damaged).ok()) << "byte " << i;
    EXPECT_FALSE(decode_jit(std::span(bytes).first(i)).ok()) << "cut at " << i;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode_jit(longer).error().code, Errc::kCorrupt);
  EXPECT_EQ(decode_jit(repaired(longer)).error().code, Errc::kCorrupt) << "one byte too many";
}

// With size and hash put right, so that the fields are what is looked at.
TEST(JitSaved, DamagedFieldsNeverLeaveTheirBounds) {
  Sample sample;
  const Bytes bytes = sample.capture();
  JitLab lab;
  std::mt19937_64 random(7);
  size_t refused = 0, accepted = 0;
  for (int round = 0; round < 1500; ++round) {
    Bytes damaged = bytes;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = 64 + random() % (damaged.size() - 64 - 8);
      uint64_t value = random() >> (random() % 64);
      if (random() % 4 == 0) value = ~uint64_t{0} - random() % 9;
      std::memcpy(damaged.data() + at, &value, random() % 2 == 0 ? 1 : 8);
    }
    if (random() % 8 == 0) damaged.resize(64 + random() % (damaged.size() - 64));
    ++(Jit::load(lab.s, repaired(std::move(damaged))).ok() ? accepted : refused);
  }
  EXPECT_TRUE(Jit::load(lab.s, bytes).ok()) << "nothing stayed behind in the session";
  EXPECT_GT(refused, 150u);
  EXPECT_GT(accepted, 15u) << "contents and texts may be anything";
}

TEST(JitSaved, RowsThatDoNotFitTogetherAreRefused) {
  Sample sample;
  const auto good = decode_jit(sample.capture());
  ASSERT_TRUE(good.ok());
  const auto refused = [&](auto change) {
    SavedJit bad = *good;
    change(bad);
    JitLab lab;
    const auto jit = Jit::load(lab.s, encode_jit(bad));
    return !jit.ok() && jit.error().code == Errc::kCorrupt;
  };
  EXPECT_FALSE(refused([](SavedJit&) {}));
  EXPECT_TRUE(refused([](SavedJit& j) { j.signature.inputs.pop_back(); }));
  EXPECT_TRUE(refused([](SavedJit& j) { j.signature.inputs[0].buffers[0].bytes += 4; }));
  EXPECT_TRUE(refused([](SavedJit& j) { j.signature.variables.push_back({"n", 0, 1, 1}); }));
  EXPECT_TRUE(refused([](SavedJit& j) { j.memories.pop_back(); }));
  EXPECT_TRUE(refused([](SavedJit& j) { j.linear.calls[0].args[0].bytes = uint64_t{1} << 40; }));
  EXPECT_TRUE(refused([](SavedJit& j) { j.linear.calls[0].program = 99; }));
  EXPECT_TRUE(refused([](SavedJit& j) { j.linear.programs[0].image.entry_offset = 1 << 30; }));
  EXPECT_TRUE(refused([](SavedJit& j) { j.linear.programs[0].outs.push_back(99); }));
  EXPECT_TRUE(refused([](SavedJit& j) {
    for (SavedMemory& m : j.memories) m.contents.clear();
  })) << "contents are missing";
  EXPECT_TRUE(refused([](SavedJit& j) { j.results[0] = j.linear.programs[0].ast_text; }));
}

// The child: loads the file in its folder with no compiler at hand and leaves what it computed.
TEST(JitSavedChild, DISABLED_RunsTheFileInItsFolder) {
  JitLab lab(without_compiler());
  const auto jit = Jit::load_file(lab.s, "saved.jit");
  ASSERT_TRUE(jit.ok()) << jit.error().what;
  const auto r = (*jit)->call({lab.floats({0.25f, -7.5f})});
  ASSERT_TRUE(r.ok()) << r.error().what;
  const auto out = lab.s.read((*r)[0]);
  ASSERT_TRUE(out.ok());
  ASSERT_TRUE(write_file_atomic("out.bin", out->bytes).ok());
}

TEST(JitSaved, ANewProcessComputesTheSameBytesAndCompilesNothing) {
  const auto folder = TempDir::create("jit");
  ASSERT_TRUE(folder.ok());
  Sample sample;
  sample.capture();
  ASSERT_TRUE(sample.jit->save_file(join_path(folder->path(), "saved.jit")).ok());
  ProcSpec child;
  child.argv = {"/proc/self/exe", "--gtest_also_run_disabled_tests",
                "--gtest_filter=JitSavedChild.*"};
  child.working_dir = folder->path();
  const auto ran = run_process(child);
  ASSERT_TRUE(ran.ok()) << ran.error().what;
  ASSERT_TRUE(ran->succeeded()) << ran->out << ran->err;
  const auto got = read_file(join_path(folder->path(), "out.bin"));
  ASSERT_TRUE(got.ok());
  const auto want =
      sample.lab.s.read(sample.lab.call(*sample.jit, {sample.lab.floats({0.25f, -7.5f})}));
  ASSERT_TRUE(want.ok());
  EXPECT_EQ(*got, want->bytes);
}

}  // namespace
}  // namespace modeld::exec::test
