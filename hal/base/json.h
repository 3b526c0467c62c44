// A small JSON value with writer and parser: reports, metadata slices, the control socket, --json
// output. This is not a general document model: objects keep insertion order, so what is written is
// deterministic. Contract: parse never throws, limits nesting to kMaxDepth and reports the byte
// where it stopped.
//   NaN and infinity are written as null (JSON has none). Invalid UTF-8 is replaced when written.
// Threading: plain values.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hal/base/status.h"

namespace modeld {

class Json {
 public:
  static constexpr int kMaxDepth = 64;
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;        // null
  Json(std::nullptr_t) {}  // NOLINT(google-explicit-constructor) values read like JSON
  template <class T>
  requires std::same_as<T, bool> Json(T v)
      : value_(v) {}  // NOLINT(google-explicit-constructor) values read like JSON
  template <class T>
  requires(std::integral<T> && !std::same_as<T, bool>) Json(T v)
      : value_(static_cast<int64_t>(v)) {
  }                              // NOLINT(google-explicit-constructor) values read like JSON
  Json(double v) : value_(v) {}  // NOLINT(google-explicit-constructor) values read like JSON
  Json(const char* v)
      : value_(std::string(v)) {}  // NOLINT(google-explicit-constructor) values read like JSON
  Json(std::string_view v)
      : value_(std::string(v)) {}  // NOLINT(google-explicit-constructor) values read like JSON
  Json(std::string v)
      : value_(std::move(v)) {}  // NOLINT(google-explicit-constructor) values read like JSON
  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Checked reads: kMismatch naming what was found.
  Result<bool> as_bool() const;
  Result<int64_t> as_int() const;    // a double with a whole value is accepted
  Result<double> as_double() const;  // an int is accepted
  Result<std::string> as_string() const;
  // Lenient reads for optional fields.
  int64_t int_or(int64_t fallback) const;
  double double_or(double fallback) const;
  bool bool_or(bool fallback) const;
  std::string string_or(std::string_view fallback) const;

  // Elements and members; empty when this is another kind.
  const Array& items() const;
  const Object& members() const;
  size_t size() const;                           // array or object, else 0
  const Json* find(std::string_view key) const;  // null when absent or not an object
  Result<const Json*> require(std::string_view key) const;

  // Building. A null becomes an object (set) or array (push); another kind is a bug (CHECK). set
  // replaces an old member.
  Json& set(std::string key, Json value);
  Json& push(Json value);

  // indent < 0: one line without spaces.
  std::string dump(int indent = -1) const;
  static Result<Json> parse(std::string_view text);

  friend bool operator==(const Json&, const Json&) = default;

 private:
  explicit Json(Array v) : value_(std::move(v)) {}
  explicit Json(Object v) : value_(std::move(v)) {}
  const char* kind_name() const;

  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace modeld
