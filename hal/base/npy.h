// .npy arrays, format versions 1 and 2: C order, little endian, plain numeric types. This is not
// numpy: no structured types, no pickles, no Fortran order, no big endian; each is refused with its
// name.
// Contract: `type` is numpy's code with byte order, "<f4", "<f2", "|u1", "<i8", "|b1"; data is
// exactly shape x item bytes. bf16 has no numpy code: callers store it as "<u2".
// Threading: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/base/status.h"

namespace modeld {

struct NpyArray {
  std::string type;            // "<f4"
  std::vector<int64_t> shape;  // empty = scalar
  std::vector<std::byte> data;
};

// 0 when the code is not one we read.
size_t npy_item_bytes(std::string_view type);
// `what` names the source in errors.
Result<NpyArray> parse_npy(std::span<const std::byte> file, const std::string& what);
Result<std::vector<std::byte>> format_npy(const NpyArray& array);
Result<NpyArray> read_npy(const std::string& path);
Status write_npy(const std::string& path, const NpyArray& array);

}  // namespace modeld
