// The emulated CPU for targets that this host is not, its runner compiled by the same compiler as
// the kernels. Contract: kUnsupported for a target nobody plays, kNotFound when qemu-user or the
// compiler is not installed. Threading: any.
#pragma once

#include <memory>

#include "hal/device.h"
#include "hal/target.h"

namespace modeld::tools {

Result<std::unique_ptr<hal::Device>> open_emulator_for(const hal::Target& target);

}  // namespace modeld::tools
