#include "selftest/fuzz/onnx_wire.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

namespace modeld::fuzz {
namespace {

// Which field of which message holds a message (onnx.proto).
struct Child {
  Message parent;
  uint32_t field;
  Message child;
};
constexpr Child kChildren[] = {
    {Message::kModel, 7, Message::kGraph},      {Message::kModel, 8, Message::kOpset},
    {Message::kModel, 14, Message::kEntry},     {Message::kGraph, 1, Message::kNode},
    {Message::kGraph, 5, Message::kTensor},     {Message::kGraph, 11, Message::kValueInfo},
    {Message::kGraph, 12, Message::kValueInfo}, {Message::kGraph, 13, Message::kValueInfo},
    {Message::kNode, 5, Message::kAttribute},   {Message::kAttribute, 5, Message::kTensor},
    {Message::kAttribute, 6, Message::kGraph},  {Message::kTensor, 13, Message::kEntry},
    {Message::kValueInfo, 2, Message::kType},   {Message::kType, 1, Message::kTensorType},
    {Message::kTensorType, 2, Message::kShape}, {Message::kShape, 1, Message::kDim},
};

Message child_of(Message parent, uint32_t field) {
  for (const Child& c : kChildren)
    if (c.parent == parent && c.field == field) return c.child;
  return Message::kNone;
}

struct Reader {
  std::string_view bytes;
  size_t at = 0;
  bool failed = false;

  uint64_t varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= bytes.size()) break;
      const auto b = static_cast<unsigned char>(bytes[at++]);
      v |= uint64_t{b & 0x7fu} << shift;
      if ((b & 0x80) == 0) return v;
    }
    failed = true;
    return 0;
  }
  std::string_view take(uint64_t n) {
    if (n > bytes.size() - at) {
      failed = true;
      return {};
    }
    at += n;
    return bytes.substr(at - n, n);
  }
};

uint64_t fixed(std::string_view b) {
  uint64_t v = 0;
  std::memcpy(&v, b.data(), b.size());
  return v;
}

std::optional<std::vector<WireField>> parse(std::string_view bytes, Message kind) {
  Reader r{bytes};
  std::vector<WireField> out;
  while (r.at < bytes.size() && !r.failed) {
    WireField f;
    const uint64_t tag = r.varint();
    f.number = static_cast<uint32_t>(tag >> 3);
    f.wire = static_cast<uint8_t>(tag & 7);
    if (f.wire == 0) {
      f.value = r.varint();
    } else if (f.wire == 1 || f.wire == 5) {
      const auto raw = r.take(f.wire == 1 ? 8 : 4);
      if (!r.failed) f.value = fixed(raw);
    } else if (f.wire == 2) {
      const auto raw = r.take(r.varint());
      f.message = child_of(kind, f.number);
      std::optional<std::vector<WireField>> inner;
      if (f.message != Message::kNone) inner = parse(raw, f.message);
      if (inner)
        f.fields = std::move(*inner);
      else
        f.message = Message::kNone, f.bytes = raw;
    } else {
      return std::nullopt;
    }
    out.push_back(std::move(f));
  }
  if (r.failed) return std::nullopt;
  return out;
}

void put_varint(std::string& out, uint64_t v) {
  while (v >= 0x80) {
    out += static_cast<char>(v | 0x80);
    v >>= 7;
  }
  out += static_cast<char>(v);
}

// ---- damage ----

// Every field list of the tree, so that each message is equally likely.
void collect(std::vector<WireField>& fields,
             Message kind,
             std::vector<std::pair<Message, std::vector<WireField>*>>& out) {
  out.emplace_back(kind, &fields);
  for (WireField& f : fields)
    if (f.message != Message::kNone) collect(f.fields, f.message, out);
}

// Names of values: what nodes take and give.
void collect_names(const std::vector<WireField>& fields,
                   Message kind,
                   std::vector<std::string>& out) {
  for (const WireField& f : fields) {
    if (kind == Message::kNode && f.number <= 2 && f.wire == 2) out.push_back(f.bytes);
    if (f.message != Message::kNone) collect_names(f.fields, f.message, out);
  }
}

const char* const kOps[] = {"Add",
                            "Mul",
                            "Conv",
                            "MatMul",
                            "Gemm",
                            "Reshape",
                            "Transpose",
                            "Concat",
                            "Slice",
                            "Gather",
                            "Resize",
                            "Softmax",
                            "Sigmoid",
                            "Erf",
                            "Clip",
                            "Cast",
                            "Shape",
                            "Expand",
                            "Squeeze",
                            "Split",
                            "Pad",
                            "MaxPool",
                            "AveragePool",
                            "ReduceMean",
                            "Identity",
                            "Where",
                            "ConstantOfShape",
                            "Unsqueeze",
                            "LayerNormalization",
                            "Flatten",
                            "NoSuchOp",
                            "Loop"};

void damage_number(WireField& f, Rng& rng) {
  f.value = rng.one_in(2) ? rng.below(20) : nasty(rng, f.value);
}

// Varints in a row: dims and int attributes.
void damage_packed(std::string& bytes, Rng& rng) {
  Reader r{bytes};
  std::vector<uint64_t> values;
  while (r.at < bytes.size() && !r.failed) values.push_back(r.varint());
  if (r.failed || values.empty()) return;
  uint64_t& v = values[rng.below(values.size())];
  v = rng.one_in(2) ? rng.below(300) : nasty(rng, v);
  if (rng.one_in(6)) values.push_back(rng.below(5));
  bytes.clear();
  for (const uint64_t n : values) put_varint(bytes, n);
}

void damage_bytes(WireField& f, Message kind, const std::vector<std::string>& names, Rng& rng) {
  if (kind == Message::kNode && f.number <= 2 && !names.empty()) {
    f.bytes = names[rng.below(names.size())];  // another edge: cycles, wrong types, lost values
    return;
  }
  if (kind == Message::kNode && f.number == 4) {
    f.bytes = kOps[rng.below(std::size(kOps))];
    return;
  }
  const bool is_packed = (kind == Message::kTensor && (f.number == 1 || f.number == 7)) ||
                         (kind == Message::kAttribute && f.number == 8);
  if (is_packed) return damage_packed(f.bytes, rng);
  switch (rng.below(4)) {
    case 0:
      f.bytes.resize(f.bytes.size() / 2);
      break;
    case 1:
      f.bytes += f.bytes.substr(0, 64);
      break;
    case 2:
      if (!f.bytes.empty())
        f.bytes[rng.below(f.bytes.size())] ^= static_cast<char>(1 << rng.below(7));
      break;
    default:
      f.bytes.clear();
      break;
  }
}

void damage_list(std::vector<WireField>& fields, Rng& rng) {
  const size_t i = rng.below(fields.size()), k = rng.below(fields.size());
  switch (rng.below(3)) {
    case 0:
      fields.erase(fields.begin() + static_cast<ptrdiff_t>(i));
      break;
    case 1:
      fields.push_back(WireField(fields[i]));
      break;
    default:
      std::swap(fields[i], fields[k]);
      break;
  }
}

}  // namespace

std::vector<WireField> read_wire(std::string_view bytes, Message kind) {
  return parse(bytes, kind).value_or(std::vector<WireField>{});
}

std::string write_wire(const std::vector<WireField>& fields) {
  std::string out;
  for (const WireField& f : fields) {
    put_varint(out, uint64_t{f.number} << 3 | f.wire);
    if (f.wire == 0) put_varint(out, f.value);
    if (f.wire == 1 || f.wire == 5)
      out.append(reinterpret_cast<const char*>(&f.value), f.wire == 1 ? 8 : 4);
    if (f.wire != 2) continue;
    const std::string inner = f.message == Message::kNone ? f.bytes : write_wire(f.fields);
    put_varint(out, inner.size());
    out += inner;
  }
  return out;
}

void damage_wire(std::vector<WireField>& model, Rng& rng) {
  for (uint64_t n = 1 + rng.below(3); n > 0; --n) {
    std::vector<std::pair<Message, std::vector<WireField>*>> lists;
    std::vector<std::string> names;
    collect(model, Message::kModel, lists);
    collect_names(model, Message::kModel, names);
    const auto [kind, fields] = lists[rng.below(lists.size())];
    if (fields->empty()) continue;
    if (rng.one_in(4)) {
      damage_list(*fields, rng);
      continue;
    }
    WireField& f = (*fields)[rng.below(fields->size())];
    if (f.wire != 2)
      damage_number(f, rng);
    else if (f.message == Message::kNone)
      damage_bytes(f, kind, names, rng);
  }
}

}  // namespace modeld::fuzz
