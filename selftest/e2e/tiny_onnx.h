// ONNX files too small or too wrong for any exporter, field by field: what the bad-input tests feed
// to modelc. This is not an ONNX library: no op is known here. Contract: field numbers are those of
// onnx.proto 1.12. Threading: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace modeld::e2e {

// One protobuf message under construction.
class Proto {
 public:
  Proto& number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Proto& text(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Proto& message(int field, const Proto& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes_ += static_cast<char>(v | 0x80);
    bytes_ += static_cast<char>(v);
  }
  std::string bytes_;
};

constexpr uint64_t kOnnxFloat = 1;

inline Proto value_info(const std::string& name, const std::vector<uint64_t>& dims) {
  Proto shape;
  for (const uint64_t d : dims) shape.message(1, Proto().number(1, d));
  return Proto().text(1, name).message(
      2, Proto().message(1, Proto().number(1, kOnnxFloat).message(2, shape)));
}

inline Proto node(const std::string& op,
                  const std::string& name,
                  const std::vector<std::string>& inputs,
                  const std::string& output) {
  Proto out;
  for (const std::string& input : inputs) out.text(1, input);
  return out.text(2, output).text(3, name).text(4, op);
}

// A model with input x and output y, both float 1x4.
inline std::string onnx_file(const std::vector<Proto>& nodes,
                             const std::vector<Proto>& initialisers = {}) {
  Proto graph;
  for (const Proto& n : nodes) graph.message(1, n);
  graph.text(2, "g");
  for (const Proto& i : initialisers) graph.message(5, i);
  graph.message(11, value_info("x", {1, 4})).message(12, value_info("y", {1, 4}));
  return Proto()
      .number(1, 8)
      .message(7, graph)
      .message(8, Proto().text(1, "").number(2, 17))
      .bytes();
}

// Float 4 whose bytes lie in `file`.
inline Proto external_tensor(const std::string& name, const std::string& file) {
  return Proto()
      .number(1, 4)
      .number(2, kOnnxFloat)
      .text(8, name)
      .message(13, Proto().text(1, "location").text(2, file))
      .number(14, 1);
}

}  // namespace modeld::e2e
