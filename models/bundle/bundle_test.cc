// Writer and reader together: what is written is read back, and nothing damaged is read.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"

#include "models/bundle/bundle_reader.h"
#include "models/bundle/bundle_writer.h"
#include "models/bundle/golden_answers.h"
#include "models/bundle/sample_bundle.h"

namespace modeld::bundle {
namespace {

using Bytes = std::vector<std::byte>;

Result<std::unique_ptr<Bundle>> open_bytes(const Bytes& bytes, const OpenOptions& options = {}) {
  ASSIGN_OR_RETURN(UniqueFd fd, sealed_memfd("bundle-test", bytes));
  return Bundle::open_fd(std::move(fd), "test.bundle", options);
}

Result<std::unique_ptr<Bundle>> open_content(BundleContent content) {
  ASSIGN_OR_RETURN(const Bytes bytes, format_bundle(std::move(content)));
  return open_bytes(bytes);
}

std::string error_of(const Result<std::unique_ptr<Bundle>>& r) {
  return r.ok() ? "accepted" : r.error().what;
}

template <class T>
void poke(Bytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

TEST(Bundle, ReadsBackWhatWasWritten) {
  auto b = open_bytes(sample_bundle());
  ASSERT_TRUE(b.ok()) << b.error().what;
  const Manifest& m = (*b)->manifest();
  const BundleContent c = sample_content();
  EXPECT_EQ(m.role, Role::kRoad);
  EXPECT_EQ(m.model_sha256, c.manifest.model_sha256);
  EXPECT_EQ(m.plan.target, c.manifest.plan.target);
  EXPECT_EQ(m.plan.entries[0].inputs, c.manifest.plan.entries[0].inputs);
  EXPECT_EQ(m.plan.entries[0].calls, c.manifest.plan.entries[0].calls);
  EXPECT_EQ(m.plan.entries[1].scalars, c.manifest.plan.entries[1].scalars);
  EXPECT_EQ(m.plan.buffers, c.manifest.plan.buffers);
  EXPECT_EQ(m.plan.memory, c.manifest.plan.memory);
  EXPECT_EQ(m.states, c.manifest.states);
  EXPECT_EQ(m.splits, c.manifest.splits);
  EXPECT_EQ(m.slices, c.manifest.slices);
  EXPECT_EQ(m.geometries, c.manifest.geometries);
  EXPECT_EQ(m.intrinsics, c.manifest.intrinsics);
  EXPECT_EQ(m.golden, c.manifest.golden);
  EXPECT_EQ(m.budget, c.manifest.budget);
  EXPECT_EQ(m.self_check, SelfCheck::kQuick);
  EXPECT_EQ(m.context_frames, 24u);
}

TEST(Bundle, PlanGetsItsTextsImagesAndWeightsBack) {
  auto b = open_bytes(sample_bundle());
  ASSERT_TRUE(b.ok()) << b.error().what;
  const BundleContent c = sample_content();
  const exec::Plan plan = (*b)->to_plan(true);
  ASSERT_EQ(plan.programs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(plan.programs[i].ast_text, c.manifest.plan.programs[i].ast_text);
    EXPECT_EQ(plan.programs[i].source, c.manifest.plan.programs[i].source);
    EXPECT_EQ(plan.programs[i].image.code, c.manifest.plan.programs[i].image.code);
    EXPECT_EQ(plan.programs[i].image.offset % 64, 0u);
    EXPECT_EQ(plan.programs[i].image.entry_offset, 16u);
  }
  const exec::PlanSources s = (*b)->sources();
  EXPECT_TRUE(std::equal(s.weights.begin(), s.weights.end(), c.manifest.plan.weight_bytes.begin(),
                         c.manifest.plan.weight_bytes.end()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(s.weights.data()) % 64, 0u);
  EXPECT_EQ(s.program_fd_offset % kPageBytes, 0u);
  Bytes code(s.program_fd_length);
  ASSERT_EQ(pread(s.program_fd, code.data(), code.size(), static_cast<off_t>(s.program_fd_offset)),
            static_cast<ssize_t>(code.size()));
  EXPECT_TRUE(
      std::equal(code.begin(), code.begin() + 140, c.manifest.plan.programs[0].image.code.begin()));
}

TEST(Bundle, RewritingAnOpenedBundleGivesTheSameBytes) {
  const Bytes first = sample_bundle();
  auto b = open_bytes(first);
  ASSERT_TRUE(b.ok()) << b.error().what;
  BundleContent again;
  again.manifest = (*b)->manifest();
  again.manifest.plan = (*b)->to_plan(true);
  again.weights = (*b)->section(SectionKind::kWeights);
  const auto golden = (*b)->section(SectionKind::kGolden);
  again.golden.assign(golden.begin(), golden.end());
  again.keep_sources = true;
  auto second = format_bundle(std::move(again));
  ASSERT_TRUE(second.ok()) << second.error().what;
  EXPECT_EQ(*second, first);
}

TEST(Bundle, SameContentSameBytes) {
  EXPECT_EQ(sample_bundle(), sample_bundle());
}

TEST(Bundle, EveryByteIsChecked) {
  const Bytes good = sample_bundle();
  for (size_t at = 0; at < good.size(); at += at < 4096 ? 1 : 7) {
    Bytes b = good;
    b[at] ^= std::byte{1} << (at % 8);
    auto r = open_bytes(b);
    ASSERT_FALSE(r.ok()) << "byte " << at;
    ASSERT_TRUE(r.error().what.starts_with("bundle test.bundle:")) << r.error().what;
    ASSERT_EQ(r.error().what.find('\n'), std::string::npos);
    ASSERT_STREQ(bundle_reason(r.error()), "bundle_invalid") << r.error().what;
  }
}

TEST(Bundle, TruncatedAtEveryPageIsRefused) {
  const Bytes good = sample_bundle();
  for (size_t end = 0; end < good.size(); end += 4096)
    for (const size_t cut : {end, end + 1, end + 255, end + 4095}) {
      if (cut >= good.size()) continue;
      if (cut == 0) continue;  // an empty memfd cannot be made here: next test
      auto r = open_bytes(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(cut)));
      EXPECT_FALSE(r.ok()) << cut;
    }
}

TEST(Bundle, DamagedByHand) {
  struct Case {
    const char* what;
    const char* expected;
    void (*damage)(Bytes&);
  };
  const Case cases[] = {
      {"magic", "not a bundle", [](Bytes& b) { b[1] = std::byte{'X'}; }},
      {"version", "format version 2", [](Bytes& b) { poke<uint32_t>(b, 8, 2); }},
      {"file size", "header says", [](Bytes& b) { poke<uint64_t>(b, 16, 12); }},
      {"appended byte", "header says", [](Bytes& b) { b.push_back(std::byte{0}); }},
      {"manifest offset past the end", "manifest at",
       [](Bytes& b) { poke<uint64_t>(b, 24, uint64_t{1} << 40); }},
      {"manifest offset that overflows", "manifest at",
       [](Bytes& b) { poke<uint64_t>(b, 24, ~uint64_t{0} - 4095); }},
      {"manifest size 2^63", "manifest of",
       [](Bytes& b) { poke<uint64_t>(b, 32, uint64_t{1} << 63); }},
      {"manifest hash", "hash of the header", [](Bytes& b) { b[50] ^= std::byte{4}; }},
      {"reserved byte", "reserved", [](Bytes& b) { b[100] = std::byte{1}; }},
      {"signature of nobody", "signed, but no keys directory is given",
       [](Bytes& b) { b[200] = std::byte{1}; }},
      {"weights", "section 0 (weights)", [](Bytes& b) { b[4096] ^= std::byte{1}; }},
      {"padding", "between sections", [](Bytes& b) { b[4096 + 384] = std::byte{1}; }},
      {"header page", "between sections", [](Bytes& b) { b[300] = std::byte{1}; }},
  };
  for (const Case& c : cases) {
    Bytes b = sample_bundle();
    c.damage(b);
    const std::string error = error_of(open_bytes(b));
    EXPECT_NE(error.find(c.expected), std::string::npos) << c.what << ": " << error;
  }
}

TEST(Bundle, MissingFileAndDirectoryHaveTheirReasons) {
  auto missing = Bundle::open("/nonexistent/m.bundle");
  ASSERT_FALSE(missing.ok());
  EXPECT_STREQ(bundle_reason(missing.error()), "bundle_missing");
  auto dir = Bundle::open("/tmp");
  ASSERT_FALSE(dir.ok());
  EXPECT_STREQ(bundle_reason(dir.error()), "bundle_invalid");
  auto tmp = TempDir::create();
  ASSERT_TRUE(tmp.ok());
  const std::string path = join_path(tmp->path(), "empty.bundle");
  ASSERT_TRUE(write_text_atomic(path, "").ok());
  EXPECT_EQ(error_of(Bundle::open(path)),
            "bundle empty.bundle: file has 0 bytes, a header needs 256");
}

// Content that the writer puts down but no reader may follow.
TEST(Bundle, BadTablesAreRefused) {
  struct Case {
    const char* expected;
    void (*damage)(BundleContent&);
  };
  const Case cases[] = {
      {"buffer", [](BundleContent& c) { c.manifest.plan.buffers[0].offset = 200; }},
      {"buffer", [](BundleContent& c) { c.manifest.plan.buffers[2].index = 7; }},
      {"weight", [](BundleContent& c) { c.manifest.plan.weights[1].size = ~uint64_t{0}; }},
      {"program is not there",
       [](BundleContent& c) { c.manifest.plan.entries[0].calls[0].program = 2; }},
      {"wrong number of arguments",
       [](BundleContent& c) { c.manifest.plan.entries[0].calls[0].args.pop_back(); }},
      {"buffer 99",
       [](BundleContent& c) { c.manifest.plan.entries[0].calls[0].args[0].index = 99; }},
      {"weights", [](BundleContent& c) { c.manifest.plan.entries[0].calls[0].args[0].index = 0; }},
      {"call 2", [](BundleContent& c) { c.manifest.plan.entries[0].calls[2].copy_bytes = 33; }},
      {"entry point",
       [](BundleContent& c) { c.manifest.plan.programs[0].image.entry_offset = 1000; }},
      {"too large",
       [](BundleContent& c) { c.manifest.plan.entries[0].inputs[0].dims[0] = INT64_MAX; }},
      {"tensor s", [](BundleContent& c) { c.manifest.plan.entries[0].inputs[2].bytes = 64; }},
      {"twice", [](BundleContent& c) { c.manifest.plan.entries[0].inputs[1].name = "img/0"; }},
      {"no name", [](BundleContent& c) { c.manifest.plan.entries[0].outputs[0].name = ""; }},
      {"control character",
       [](BundleContent& c) { c.manifest.plan.entries[0].outputs[0].name = "a\nb"; }},
      {"limit 512",
       [](BundleContent& c) {
         c.manifest.plan.entries[0].outputs[1].name = std::string(600, 'x');
       }},
      {"no entry run", [](BundleContent& c) { c.manifest.plan.entries[0].name = "walk"; }},
      {"arenas", [](BundleContent& c) { c.manifest.plan.arenas[0].size = uint64_t{36} << 30; }},
      {"state 0", [](BundleContent& c) { c.manifest.states[0].input = 3; }},
      {"state img/0", [](BundleContent& c) { c.manifest.states[0].input = 0; }},
      {"paired twice",
       [](BundleContent& c) {
         c.manifest.states.push_back({2, 1});
       }},
      {"slice pose", [](BundleContent& c) { c.manifest.slices[1].end = 13; }},
      {"slice pose", [](BundleContent& c) { c.manifest.slices[1].begin = 12; }},
      {"split input img",
       [](BundleContent& c) {
         c.manifest.splits[0].parts = {0, 0};
       }},
      {"split input img", [](BundleContent& c) { c.manifest.splits[0].dims[1] = 6; }},
      {"split input img",
       [](BundleContent& c) {
         c.manifest.splits[0].parts = {0, 2};
       }},
      {"names entry run", [](BundleContent& c) { c.manifest.geometries[0].entry = 0; }},
      {"entry 5", [](BundleContent& c) { c.manifest.geometries[0].entry = 5; }},
      {"geometry", [](BundleContent& c) { c.manifest.geometries[0].width = 0; }},
      {"geometry stream: name with control character 0x00",
       [](BundleContent& c) { c.manifest.geometries[0].stream += std::string(1, '\0') + "x"; }},
      {"intrinsics", [](BundleContent& c) { c.manifest.intrinsics[0].f = 0.0 / 0.0; }},
      {"golden", [](BundleContent& c) { c.manifest.golden[0].tensors[0].offset = 1 << 20; }},
      {"golden", [](BundleContent& c) { c.manifest.golden[0].tensors[4].tensor = 0; }},
      {"golden", [](BundleContent& c) { c.manifest.golden[0].tensors.pop_back(); }},
      {"golden", [](BundleContent& c) { c.manifest.golden[0].tolerance = -1; }},
      {"takes scalars", [](BundleContent& c) { c.manifest.golden[0].entry = 1; }},
      {"time limit", [](BundleContent& c) { c.manifest.budget.p99_ms = 1.0 / 0.0; }},
      {"context frames", [](BundleContent& c) { c.manifest.context_frames = 1u << 31; }},
      {"out of order or twice",
       [](BundleContent& c) {
         std::swap(c.manifest.plan.programs[0].key, c.manifest.plan.programs[1].key);
       }},
      {"target threads", [](BundleContent& c) { c.manifest.plan.target.threads = 0; }},
  };
  for (const Case& c : cases) {
    BundleContent content = sample_content();
    c.damage(content);
    const std::string error = error_of(open_content(std::move(content)));
    EXPECT_NE(error.find(c.expected), std::string::npos)
        << "case " << &c - cases << " expected '" << c.expected << "': " << error;
  }
}

// Manifests are re-hashed after the change: only the rules stand in the way.
TEST(Bundle, MovedSectionsAreRefused) {
  const Bytes good = sample_bundle();
  auto header = decode_header(good, "t");
  ASSERT_TRUE(header.ok());
  struct Case {
    const char* expected;
    void (*damage)(std::vector<SectionRow>&);
  };
  const Case cases[] = {
      {"section 1 (images) starts at",
       [](std::vector<SectionRow>& s) { s[1].offset = s[0].offset; }},
      {"ends at", [](std::vector<SectionRow>& s) { s[2].size = uint64_t{1} << 62; }},
      {"ends at", [](std::vector<SectionRow>& s) { s[2].offset = ~uint64_t{0} - 8191; }},
      {"out of order", [](std::vector<SectionRow>& s) { std::swap(s[0].kind, s[1].kind); }},
      {"is empty", [](std::vector<SectionRow>& s) { s[0].size = 0; }},
      {"manifest starts at", [](std::vector<SectionRow>& s) { s.resize(2); }},
      {"no graph section",
       [](std::vector<SectionRow>& s) {
         s[2].kind = SectionKind::kSources;
         s[3].kind = SectionKind::kGolden;
         s[4].kind = SectionKind::kTwins;
       }},
      {"between sections", [](std::vector<SectionRow>& s) { s[0].size -= 1; }},
  };
  for (const Case& c : cases) {
    Bytes b(good.begin(), good.begin() + static_cast<ptrdiff_t>(header->manifest_offset));
    std::vector<std::byte> old(good.begin() + static_cast<ptrdiff_t>(header->manifest_offset),
                               good.end());
    auto m = decode_manifest(old);
    ASSERT_TRUE(m.ok()) << m.error().what;
    c.damage(m->sections);
    auto bytes = encode_manifest(*m);
    ASSERT_TRUE(bytes.ok());
    b.insert(b.end(), bytes->begin(), bytes->end());
    Header h = *header;
    h.manifest_bytes = bytes->size();
    h.file_bytes = b.size();
    h.manifest_hash = blake2b(*bytes);
    const auto head = encode_header(h);
    std::copy(head.begin(), head.end(), b.begin());
    const std::string error = error_of(open_bytes(b));
    EXPECT_NE(error.find(c.expected), std::string::npos)
        << "case " << &c - cases << " expected '" << c.expected << "': " << error;
  }
}

TEST(BundleWriter, FailedSelfCheckLeavesOldFileAndNoTemporary) {
  auto tmp = TempDir::create();
  ASSERT_TRUE(tmp.ok());
  const std::string path = join_path(tmp->path(), "m.bundle");
  ASSERT_TRUE(write_text_atomic(path, "old").ok());
  bool ran = false;
  auto r = write_bundle(path, sample_content(), [&](const std::string& temp) -> Status {
    ran = Bundle::open(temp).ok();
    return fail(Errc::kMismatch, "output 3 differs");
  });
  EXPECT_TRUE(ran);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().what, "output 3 differs");
  EXPECT_EQ(*read_text(path), "old");
  EXPECT_EQ(list_dir(tmp->path())->size(), 1u);
}

TEST(BundleWriter, WritesWhatFormatBundleGives) {
  auto tmp = TempDir::create();
  ASSERT_TRUE(tmp.ok());
  const std::string path = join_path(tmp->path(), "m.bundle");
  auto r = write_bundle(path, sample_content());
  ASSERT_TRUE(r.ok()) << r.error().what;
  EXPECT_EQ(*read_file(path), sample_bundle());
  EXPECT_EQ(r->file_bytes, sample_bundle().size());
}

TEST(BundleKeys, SignedBundleNeedsItsKey) {
  auto tmp = TempDir::create();
  ASSERT_TRUE(tmp.ok());
  const std::string path = join_path(tmp->path(), "m.bundle");
  ASSERT_TRUE(write_bundle(path, sample_content()).ok());
  OpenOptions options;
  options.keys_dir = join_path(tmp->path(), "keys");
  options.require_signature = true;
  EXPECT_NE(error_of(Bundle::open(path, options)).find("not signed"), std::string::npos);

  auto key = make_key();
  ASSERT_TRUE(key.ok());
  const std::string key_path = join_path(tmp->path(), "fleet");
  ASSERT_TRUE(write_key(key_path, *key).ok());
  struct stat st {};
  ASSERT_EQ(stat(key_path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0600u);
  EXPECT_FALSE(write_key(key_path, *key).ok()) << "an existing key must not be replaced";
  auto read = read_secret_key(key_path);
  ASSERT_TRUE(read.ok()) << read.error().what;
  ASSERT_TRUE(sign_bundle(path, *read).ok());

  options.require_signature = false;
  const auto expect_no_keys = [&](const std::string& dir, const std::string& why) {
    options.keys_dir = dir;
    const auto refused = Bundle::open(path, options);
    EXPECT_EQ(error_of(refused), "bundle m.bundle: signed, but keys directory " + dir + why);
    EXPECT_STREQ(bundle_reason(refused.error()), "bundle_invalid");
  };
  expect_no_keys(join_path(tmp->path(), "none"), ": No such file or directory");
  expect_no_keys(key_path + ".pub", ": Not a directory");
  ASSERT_TRUE(make_dirs(join_path(tmp->path(), "keys")).ok());
  expect_no_keys(join_path(tmp->path(), "keys"), ": holds no *.pub");
  auto other = make_key();
  ASSERT_TRUE(write_key(join_path(tmp->path(), "other"), *other).ok());
  ASSERT_TRUE(write_text_atomic(join_path(options.keys_dir, "other.pub"),
                                *read_text(join_path(tmp->path(), "other.pub")))
                  .ok());
  EXPECT_NE(error_of(Bundle::open(path, options)).find("none of the 1 keys"), std::string::npos);
  ASSERT_TRUE(
      write_text_atomic(join_path(options.keys_dir, "fleet.pub"), *read_text(key_path + ".pub"))
          .ok());
  options.require_signature = true;
  auto b = Bundle::open(path, options);
  ASSERT_TRUE(b.ok()) << b.error().what;
  EXPECT_EQ((*b)->signed_by(), "fleet");
  ASSERT_TRUE(sign_bundle(path, *read).ok()) << "signing again replaces the signature";
}

TEST(BundleKeys, BrokenKeyFilesAreNamed) {
  auto tmp = TempDir::create();
  ASSERT_TRUE(tmp.ok());
  const std::string path = join_path(tmp->path(), "k");
  for (const char* text : {"", "hello", "modeld-ed25519-secret 00", "modeld-ed25519-public zz"}) {
    ASSERT_TRUE(write_text_atomic(path, text).ok());
    auto r = read_secret_key(path);
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().what.find(path), std::string::npos);
  }
  auto key = make_key();
  key->bytes[40] ^= 1;  // public half no longer belongs to the seed
  ASSERT_TRUE(write_key(path + "2", *key).ok());
  EXPECT_FALSE(read_secret_key(path + "2").ok());
}

TEST(BundleTarget, NamesWhatTheDeviceLacks) {
  const Manifest m = sample_content().manifest;
  hal::DeviceInfo device;
  device.uri = "cpu:0";
  device.target = "cpu:x86-64-v3";
  EXPECT_TRUE(check_target(m, device, "t").ok());
  device.target = "cpu:x86-64";
  auto r = check_target(m, device, "t");
  ASSERT_FALSE(r.ok());
  EXPECT_STREQ(bundle_reason(r.error()), "target_mismatch");
  EXPECT_EQ(r.error().what, "bundle t: built for cpu:x86-64-v3, this host lacks avx avx2 fma");
  const auto why = [&](const char* uri, const char* target) {
    device.uri = uri;
    device.target = target;
    const Status s = check_target(m, device, "t");
    return s.ok() ? "accepted" : s.error().what;
  };
  EXPECT_EQ(why("qcom:sim", "qcom:a630"),
            "bundle t: built for cpu:x86-64-v3, device qcom:sim is qcom:a630");
  EXPECT_EQ(why("cpu:0", "cpu:aarch64+dotprod"),
            "bundle t: built for cpu:x86-64-v3, this host is aarch64");
}

TEST(BundleTarget, NullDeviceTakesEveryBundle) {
  hal::DeviceInfo device;
  device.uri = "null";
  EXPECT_TRUE(check_target(sample_content().manifest, device, "t").ok());
}

TEST(GoldenAnswers, FillOutputsOfTheirEntryOnly) {
  auto b = open_bytes(sample_bundle());
  ASSERT_TRUE(b.ok()) << b.error().what;
  const auto answer = golden_answers(**b);
  Bytes outputs(48), state(32), untouched(48);
  const std::vector<uint64_t> slots = {0, 0, 0, reinterpret_cast<uint64_t>(outputs.data()),
                                       reinterpret_cast<uint64_t>(state.data())};
  answer("warp/road/1928x1208", slots);
  EXPECT_EQ(outputs, untouched);
  answer("run", slots);
  const auto& tensors = (*b)->manifest().golden[0].tensors;
  const auto golden = (*b)->golden(tensors[3]);
  EXPECT_TRUE(std::equal(outputs.begin(), outputs.end(), golden.begin(), golden.end()));
  const auto golden_state = (*b)->golden(tensors[4]);
  EXPECT_TRUE(std::equal(state.begin(), state.end(), golden_state.begin(), golden_state.end()));
  answer("run", std::span(slots).first(2));  // fewer slots than the entry has: nothing to fill
}

// SIGKILL in the middle of the self-check, when the whole file is there under its temporary name.
TEST(BundleWriter, KilledBuildLeavesNoBundle) {
  auto tmp = TempDir::create();
  ASSERT_TRUE(tmp.ok());
  const std::string path = join_path(tmp->path(), "m.bundle");
  const pid_t child = fork();
  if (child == 0) {
    (void)write_bundle(path, sample_content(), [](const std::string&) -> Status {
      raise(SIGKILL);
      return {};
    });
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(file_exists(path));
}

TEST(BundleTarget, ChipListIsChecked) {
  Manifest m = sample_content().manifest;
  m.plan.target = {};
  m.plan.target.kind = "qcom";
  m.plan.target.arch = "a630";
  m.chips = {"630.1"};
  hal::DeviceInfo device;
  device.uri = "qcom:/dev/kgsl-3d0";
  device.target = "qcom:a630";
  EXPECT_TRUE(check_target(m, device, "t", "630.1").ok());
  EXPECT_FALSE(check_target(m, device, "t", "630.2").ok());
  EXPECT_FALSE(check_target(m, device, "t").ok());
}

}  // namespace
}  // namespace modeld::bundle
