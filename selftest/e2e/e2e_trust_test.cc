// Whom the daemon trusts: signatures and keys, and a pair of bundles of which one cannot be used.
#include <sys/stat.h>

#include "selftest/e2e/bundle_damage.h"
#include "selftest/e2e/harness.h"

namespace modeld::e2e {
namespace {

using ipc::ModelState;
using ipc::Reason;

constexpr int64_t kLoadMs = 60'000;

// Two keys, of which the daemon knows the first.
class Trust : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = TempDir::create("modeld-trust");
    dir_ = join_path(scratch_dir(), base_name(made->path()));
    ASSERT_TRUE(make_dirs(at("keys.d")).ok());
    ASSERT_EQ(modelc({"keygen", "-o", at("fleet")}).exit_code, 0);
    ASSERT_EQ(modelc({"keygen", "-o", at("stranger")}).exit_code, 0);
    put_bytes(at("keys.d/fleet.pub"), bytes_of(at("fleet.pub")));
    unsigned_ = tiny_bundle("road");
  }
  std::string at(const std::string& name) const { return join_path(dir_, name); }

  void sign(const std::string& key, const std::string& to) const {
    put_bytes(to, bytes_of(unsigned_));
    const ProcResult r = modelc({"sign", to, "--key", at(key)});
    ASSERT_EQ(r.exit_code, 0) << r.err;
  }
  RigOptions options(const std::string& bundle, bool is_required) const {
    RigOptions out;
    out.bundles = {{"road", bundle}};
    out.tail = "[trust]\nkeys = \"" + at("keys.d") +
               "\"\nrequire_signature = " + (is_required ? "true" : "false") + "\n";
    return out;
  }
  // What the road model settles on.
  static ipc::ModelStatus settled(Rig& rig) {
    const auto is_settled = [&] {
      const auto now = rig.tap().status("road");
      const bool is_out = now && now->state == ModelState::kUnavailable;
      return now &&
             (now->state == ModelState::kReady || (is_out && !is_of_the_machine(now->reason)));
    };
    EXPECT_TRUE(rig.tap().wait_for(is_settled, kLoadMs)) << rig.log_text();
    return rig.tap().status("road").value_or(ipc::ModelStatus{});
  }

  std::string dir_, unsigned_;
};

TEST_F(Trust, ABundleOfATrustedKeyRunsWhereSignaturesAreRequired) {
  sign("fleet", at("road.bundle"));
  Rig rig(options(at("road.bundle"), true));
  const ipc::ModelStatus status = settled(rig);
  EXPECT_EQ(status.state, ModelState::kReady) << status.text;
}

TEST_F(Trust, AStrangersSignatureIsRefusedEvenWhereNoneIsRequired) {
  sign("stranger", at("road.bundle"));
  Rig rig(options(at("road.bundle"), false));
  const ipc::ModelStatus status = settled(rig);
  EXPECT_EQ(status.state, ModelState::kUnavailable);
  EXPECT_EQ(status.reason, Reason::kBundleInvalid);
  EXPECT_THAT(status.text, ::testing::HasSubstr("signed, but none of the 1 keys"));
}

TEST_F(Trust, AForgedSignatureIsRefused) {
  sign("fleet", at("road.bundle"));
  std::string bytes = bytes_of(at("road.bundle"));
  bytes[192] = static_cast<char>(bytes[192] ^ 1);  // the signature's first byte
  put_bytes(at("road.bundle"), bytes);
  Rig rig(options(at("road.bundle"), false));
  const ipc::ModelStatus status = settled(rig);
  EXPECT_EQ(status.state, ModelState::kUnavailable);
  EXPECT_EQ(status.reason, Reason::kBundleInvalid);
}

// A key that is taken away counts from the reload on; given back, the model comes back.
TEST_F(Trust, AReloadTakesAKeyAwayAndGivesItBack) {
  sign("fleet", at("road.bundle"));
  Rig rig(options(at("road.bundle"), true));
  ASSERT_EQ(settled(rig).state, ModelState::kReady);
  const auto set_keys = [&](const std::string& dir) {
    RigOptions other = options(at("road.bundle"), true);
    other.tail = "[trust]\nkeys = \"" + dir + "\"\nrequire_signature = true\n";
    put_bytes(rig.config_path(), config_text(other));
    rig.daemon().signal(SIGHUP);
  };
  ASSERT_TRUE(make_dirs(at("empty.d")).ok());
  set_keys(at("empty.d"));
  const auto is_refused = [&] {
    const auto now = rig.tap().status("road");
    return now && now->state == ModelState::kUnavailable && now->reason == Reason::kBundleInvalid;
  };
  ASSERT_TRUE(rig.tap().wait_for(is_refused, kLoadMs)) << rig.log_text();
  EXPECT_THAT(rig.tap().status("road")->text, ::testing::HasSubstr("empty.d: holds no *.pub"));
  const int64_t refused_ns = now_ns();
  set_keys(at("keys.d"));
  EXPECT_TRUE(rig.tap().wait_state("road", ModelState::kReady, kLoadMs, refused_ns));
}

// An update whose bundle nobody may run: the other slot runs, and says why.
TEST_F(Trust, AnUntrustedActiveSlotGivesWayToTheOther) {
  ASSERT_TRUE(make_dirs(at("pair")).ok());
  put_bytes(at("pair/b.bundle"), bytes_of(unsigned_));
  sign("fleet", at("pair/a.bundle"));
  put_bytes(at("pair/active"), "b\n");
  Rig rig(options(at("pair"), true));
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kReady, kLoadMs)) << rig.log_text();
  const ipc::ModelStatus status = rig.tap().find("road", ModelState::kReady)->status;
  EXPECT_THAT(status.text, ::testing::HasSubstr("b.bundle failed (bundle_invalid"));
  EXPECT_THAT(status.text, ::testing::HasSubstr("using a.bundle"));
  EXPECT_EQ(bytes_of(at("pair/active")), "a\n");
}

// Nothing is left to switch to: it stays down with the reason, and does not go to and fro.
TEST_F(Trust, TwoBadSlotsAreUnavailableAndStaySo) {
  ASSERT_TRUE(make_dirs(at("pair")).ok());
  for (const char* slot : {"pair/a.bundle", "pair/b.bundle"}) break_golden(unsigned_, at(slot));
  put_bytes(at("pair/active"), "a\n");
  Rig rig(options(at("pair"), false));
  ASSERT_TRUE(rig.tap().wait_state("road", ModelState::kUnavailable, kLoadMs));
  const Transition down = *rig.tap().find("road", ModelState::kUnavailable);
  EXPECT_EQ(down.status.reason, Reason::kSelftestFailed);
  EXPECT_EQ(bytes_of(at("pair/active")), "b\n") << "the one that was tried last";
  EXPECT_FALSE(rig.tap().wait_state("road", ModelState::kReady, 3000, down.at_ns));
  EXPECT_EQ(bytes_of(at("pair/active")), "b\n");
}

}  // namespace
}  // namespace modeld::e2e
