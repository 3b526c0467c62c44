// Elements of random programs as they lie in memory. Contract: values that their type holds
// exactly; bool is one byte. Threading: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/ir/dtype.h"

#include "selftest/testing/kernel_interp.h"

namespace modeld::fuzz {

std::vector<std::byte> bytes_of(ir::DType dtype, std::span<const double> values);
std::vector<double> doubles_of(ir::DType dtype, std::span<const std::byte> bytes);
testing::KernelStorage storage_of(ir::DType dtype, std::span<const double> values);

}  // namespace modeld::fuzz
