// An ONNX file as a tree of protobuf fields, for damage that keeps the file parsable: lengths are
// made again when it is written. It knows which fields hold messages and nothing of what they mean.
// Contract: write(read(x)) parses to the same model as x. Threading: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "selftest/fuzz/fuzz_main.h"

namespace modeld::fuzz {

enum class Message : uint8_t {
  kNone,  // a leaf
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kDim,
  kEntry,
  kOpset,
};

struct WireField {
  uint32_t number = 0;
  uint8_t wire = 0;    // 0 varint, 1 fixed64, 2 bytes, 5 fixed32
  uint64_t value = 0;  // wires 0, 1, 5
  std::string bytes;   // wire 2, leaf
  Message message = Message::kNone;
  std::vector<WireField> fields;  // wire 2, message
};

// Fields of a message of kind `kind`; what does not parse becomes a leaf.
std::vector<WireField> read_wire(std::string_view bytes, Message kind);
std::string write_wire(const std::vector<WireField>& fields);

// One to three random changes: numbers, names, op types, lost, doubled and swapped fields.
void damage_wire(std::vector<WireField>& model, Rng& rng);

}  // namespace modeld::fuzz
