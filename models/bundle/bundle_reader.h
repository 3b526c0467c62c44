// An opened, verified bundle: one mapping, its manifest, views of its sections. This is not a
// loaded model: nothing is compiled, allocated on a device or executed. Contract: open checks
// magic, version, size, bounds, signature policy, hashes of all sections (two threads), zero
// padding and every rule of validate.h, in bounded time; what it returns can be followed blindly.
// Errors are one line that starts with "bundle NAME:". Threading: open anywhere; a Bundle is
// immutable afterwards and may be read from any thread; it must outlive plans and weights taken
// from it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hal/base/mapping.h"
#include "hal/base/status.h"
#include "hal/base/unique_fd.h"

#include "runtime/exec/loaded_plan.h"

#include "models/bundle/manifest.h"
#include "models/bundle/validate.h"

namespace modeld::bundle {

struct OpenOptions {
  // *.pub files that may have signed the bundle; "" or a missing directory: no keys. A non-zero
  // signature that none of them verifies refuses the bundle in any case.
  std::string keys_dir;
  bool require_signature = false;
  RuleMask left_out_rules = 0;  // validate.h says who may
};

// The signature policy alone: the name of the key that verified `header`, "" for an unsigned file
// where that is allowed. `name` stands for the file in messages.
Result<std::string> check_signature(const Header& header,
                                    const OpenOptions& options,
                                    const std::string& name);

class Bundle {
 public:
  static Result<std::unique_ptr<Bundle>> open(const std::string& path,
                                              const OpenOptions& options = {});
  // `name` stands for the file in messages.
  static Result<std::unique_ptr<Bundle>> open_fd(UniqueFd fd,
                                                 const std::string& name,
                                                 const OpenOptions& options = {});
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  const Manifest& manifest() const { return manifest_; }
  const Header& header() const { return header_; }
  const std::string& name() const { return name_; }  // file name without directories
  // Name of the key that verified the signature; empty when unsigned.
  const std::string& signed_by() const { return signed_by_; }

  std::span<const std::byte> section(SectionKind kind) const;  // empty when there is none
  std::string_view ast_text(size_t program) const;
  std::string_view source(size_t program) const;  // empty when sources were not kept
  std::span<const std::byte> image(size_t program) const;
  std::span<const std::byte> golden(const GoldenTensor& tensor) const;

  // The plan with kernel ASTs filled in. Images stay in the file unless `copy_images` (prepare and
  // writers need the bytes).
  exec::Plan to_plan(bool copy_images = false) const;
  // Weights in place, images by fd and offset; valid as long as this object.
  exec::PlanSources sources() const;

 private:
  Bundle() = default;

  std::string name_;
  UniqueFd fd_;
  Mapping mapping_;
  Header header_;
  Manifest manifest_;
  std::string signed_by_;
};

// The state reason an error of open or check_target stands for: "bundle_missing", "target_mismatch"
// or "bundle_invalid".
const char* bundle_reason(const Error& error);

}  // namespace modeld::bundle
