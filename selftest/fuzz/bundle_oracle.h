// What an accepted bundle must look like, written down a second time and independently of
// models/bundle/validate.cc and exec::check_plan: a plain walk over every table that follows every
// index. Contract: returns "" or the first thing that is out of bounds; touches no memory outside
// of `file`. Threading: pure function.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "models/bundle/manifest.h"

namespace modeld::fuzz {

std::string follow_bundle(std::span<const std::byte> file,
                          const bundle::Header& header,
                          const bundle::Manifest& m);

}  // namespace modeld::fuzz
