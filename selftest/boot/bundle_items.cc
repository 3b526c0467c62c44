// Items of the file and of the way to a loaded plan: what the daemon's worker does before its
// self-test, one step an item.
#include "hal/base/fs.h"

#include "runtime/exec/prepare.h"

#include "models/tools/figures.h"

#include "daemon/bundle_choice.h"

#include "selftest/boot/subject.h"

namespace modeld::selftest {
namespace {

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

bundle::OpenOptions trust_of(const daemon::Config& config) {
  bundle::OpenOptions out;
  out.keys_dir = config.keys_dir;
  out.require_signature = config.require_signature;
  return out;
}

void identify(const bundle::Bundle& b, Identity& id) {
  const bundle::Manifest& m = b.manifest();
  id.file_bytes = b.header().file_bytes;
  id.role = bundle::role_name(m.role);
  id.manifest_hash = b.header().manifest_hash.hex();
  id.model_sha256 = m.model_sha256.hex();
  id.self_check = bundle::self_check_name(m.self_check);
  id.compiler_version = m.compiler_version;
  id.back_end = m.plan.compiler;
  id.codegen_config = m.plan.codegen_config;
  id.target = hal::print_target(m.plan.target);
  id.renderer = m.plan.target.renderer;
  id.threads = m.plan.target.threads;
  id.budget_p50_ms = m.budget.p50_ms;
  id.budget_p99_ms = m.budget.p99_ms;
}

// Gives every call its binary, as the policy allows.
Result<size_t> make_complete(Subject& s) {
  s.plan = s.bundle->to_plan();
  if (s.plan.missing_images() == 0) return size_t{0};
  s.plan = s.bundle->to_plan(true);
  ASSIGN_OR_RETURN(const exec::PreparePolicy policy, exec::parse_prepare_policy(s.model.prepare));
  ASSIGN_OR_RETURN(const exec::PrepareReport report,
                   exec::prepare(s.plan, policy, exec::default_compile_options(s.plan.target)));
  return report.prepared;
}

}  // namespace

Outcome bundle_item(Subject& s) {
  const auto choice = daemon::choose_bundle(s.model.bundle);
  if (!choice.ok()) return refused(choice.error().what);
  s.identity.file = choice->file;
  const int64_t start = now_ns();
  // The signature is an item of its own.
  bundle::OpenOptions options;
  options.left_out_rules = bundle::kLeaveOutSignature;
  auto opened = bundle::Bundle::open(choice->file, options);
  if (!opened.ok()) return refused(opened.error().what);
  s.times.open_ns = now_ns() - start;
  const bundle::Manifest& m = (*opened)->manifest();
  identify(**opened, s.identity);
  if (bundle::role_name(m.role) != s.model.name) {
    return refused(strf("bundle %s: role is %s, configured for %s", (*opened)->name().c_str(),
                        bundle::role_name(m.role), s.model.name.c_str()));
  }
  s.bundle = std::move(*opened);
  std::string text = strf("%zu sections of %s", m.sections.size(),
                          tools::bytes_text(s.identity.file_bytes).c_str());
  if (choice->active != '\0')
    text += strf(", slot %c of %s", choice->active, base_name(s.model.bundle).c_str());
  return passed(std::move(text), {{"open_ms", ms(s.times.open_ns)}});
}

Outcome signature_item(Subject& s) {
  const auto signer =
      bundle::check_signature(s.bundle->header(), trust_of(s.config), s.bundle->name());
  if (!signer.ok()) return refused(signer.error().what);
  s.is_trusted = true;
  s.identity.signed_by = *signer;
  return passed(signer->empty() ? "not signed, and no signature is required"
                                : "signed by " + *signer);
}

Outcome device_item(Subject& s) {
  auto device = s.world.open_device(s.model.device, s.device_config());
  if (!device.ok()) {
    const Errc code = device.error().code;
    // A device nobody knows is a fault of the configuration; one that is taken or gone is not.
    if (code == Errc::kInvalid || code == Errc::kUnsupported) return refused(device.error().what);
    return failed(device.error().what);
  }
  s.device = std::move(*device);
  s.identity.device = s.device->info().uri;
  s.identity.device_name = s.device->info().name;
  return passed(s.identity.device + ": " + s.identity.device_name +
                (s.device->info().is_simulated ? ", simulated" : ""));
}

Outcome target_item(Subject& s) {
  if (s.device == nullptr) return not_run("not run: no device");
  const Status fits = bundle::check_target(s.manifest(), s.device->info(), s.bundle->name());
  if (!fits.ok()) return refused(fits.error().what);
  s.is_on_target = true;
  const hal::Target& target = s.manifest().plan.target;
  return passed(strf("%s:%s, %zu features, all here", target.kind.c_str(), target.arch.c_str(),
                     target.features.size()));
}

Outcome load_item(Subject& s) {
  const int64_t start = now_ns();
  const auto prepared = make_complete(s);
  if (!prepared.ok()) return refused("bundle " + s.bundle->name() + ": " + prepared.error().what);
  auto loaded = exec::LoadedPlan::load(s.plan, *s.device, s.bundle->sources());
  if (!loaded.ok()) return failed("bundle " + s.bundle->name() + ": " + loaded.error().what);
  if (const Status dry = (*loaded)->dry_run(s.load_deadline()); !dry.ok())
    return failed("dry run: " + dry.error().what);
  auto driver = models::make_model(s.manifest(), **loaded);
  if (!driver.ok()) return refused("bundle " + s.bundle->name() + ": " + driver.error().what);
  s.times.load_ns = now_ns() - start;
  s.loaded = std::move(*loaded);
  s.driver = std::move(*driver);
  return passed(
      strf("%zu kernels (%zu compiled here), %zu entries, %s on the device", s.plan.programs.size(),
           *prepared, s.plan.entries.size(), tools::bytes_text(s.loaded->bound_bytes()).c_str()),
      {{"load_ms", ms(s.times.load_ns)}});
}

}  // namespace modeld::selftest
