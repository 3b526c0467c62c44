#include "hal/base/json.h"

#include <cmath>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>

#include "hal/base/check.h"

namespace modeld {

namespace {

using Wide = nlohmann::ordered_json;

Wide to_wide(const Json& v) {
  if (v.is_null()) return nullptr;
  if (v.is_bool()) return v.bool_or(false);
  if (v.is_int()) return v.int_or(0);
  if (v.is_number()) {
    const double d = v.double_or(0);
    return std::isfinite(d) ? Wide(d) : Wide(nullptr);
  }
  if (v.is_string()) return v.string_or("");
  if (v.is_array()) {
    Wide out = Wide::array();
    for (const Json& item : v.items()) out.push_back(to_wide(item));
    return out;
  }
  Wide out = Wide::object();
  for (const auto& [key, member] : v.members()) out[key] = to_wide(member);
  return out;
}

// Builds our value directly, so that depth is limited before any recursion exists.
class Builder final : public nlohmann::json_sax<Wide> {
 public:
  bool null() override { return add(Json()); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override {
    if (v <= static_cast<number_unsigned_t>(INT64_MAX)) return add(static_cast<int64_t>(v));
    return add(static_cast<double>(v));
  }
  bool number_float(number_float_t v, const string_t&) override { return add(v); }
  bool string(string_t& v) override { return add(Json(std::move(v))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool key(string_t& v) override {
    stack_.back().key = std::move(v);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position,
                   const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = strf("JSON: syntax error at byte %zu", position);
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  struct Level {
    Json value;
    std::string key;
  };

  bool add(Json v) {
    if (stack_.empty()) {
      root_ = std::move(v);
    } else if (stack_.back().value.is_array()) {
      stack_.back().value.push(std::move(v));
    } else {
      if (stack_.back().value.find(stack_.back().key) != nullptr) {
        error_ = strf("JSON: member '%s' twice in one object", stack_.back().key.c_str());
        return false;
      }
      stack_.back().value.set(std::move(stack_.back().key), std::move(v));
    }
    return true;
  }
  bool open(Json v) {
    if (stack_.size() >= static_cast<size_t>(Json::kMaxDepth)) {
      error_ = strf("JSON: nested deeper than %d", Json::kMaxDepth);
      return false;
    }
    stack_.push_back({std::move(v), {}});
    return true;
  }
  bool close() {
    Json done = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(done));
  }

  Json root_;
  std::vector<Level> stack_;
  std::string error_;
};

}  // namespace

const char* Json::kind_name() const {
  static constexpr const char* kNames[] = {"null",   "a bool", "a whole number", "a number",
                                           "a text", "a list", "an object"};
  return kNames[value_.index()];
}

Result<bool> Json::as_bool() const {
  if (const bool* v = std::get_if<bool>(&value_)) return *v;
  return fail(Errc::kMismatch, strf("JSON: expected a bool, found %s", kind_name()));
}

Result<int64_t> Json::as_int() const {
  if (const int64_t* v = std::get_if<int64_t>(&value_)) return *v;
  if (const double* v = std::get_if<double>(&value_)) {
    if (std::trunc(*v) == *v && std::fabs(*v) < 9.0e15) return static_cast<int64_t>(*v);
  }
  return fail(Errc::kMismatch, strf("JSON: expected a whole number, found %s", kind_name()));
}

Result<double> Json::as_double() const {
  if (const int64_t* v = std::get_if<int64_t>(&value_)) return static_cast<double>(*v);
  if (const double* v = std::get_if<double>(&value_)) return *v;
  return fail(Errc::kMismatch, strf("JSON: expected a number, found %s", kind_name()));
}

Result<std::string> Json::as_string() const {
  if (const std::string* v = std::get_if<std::string>(&value_)) return *v;
  return fail(Errc::kMismatch, strf("JSON: expected a text, found %s", kind_name()));
}

int64_t Json::int_or(int64_t fallback) const {
  return as_int().value_or(fallback);
}
double Json::double_or(double fallback) const {
  return as_double().value_or(fallback);
}
bool Json::bool_or(bool fallback) const {
  return as_bool().value_or(fallback);
}
std::string Json::string_or(std::string_view fallback) const {
  return as_string().value_or(std::string(fallback));
}

const Json::Array& Json::items() const {
  static const Array none;
  const Array* v = std::get_if<Array>(&value_);
  return v != nullptr ? *v : none;
}

const Json::Object& Json::members() const {
  static const Object none;
  const Object* v = std::get_if<Object>(&value_);
  return v != nullptr ? *v : none;
}

size_t Json::size() const {
  return is_array() ? items().size() : members().size();
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, member] : members()) {
    if (name == key) return &member;
  }
  return nullptr;
}

Result<const Json*> Json::require(std::string_view key) const {
  const Json* member = find(key);
  if (member == nullptr)
    return fail(Errc::kNotFound, strf("JSON: member '%.*s' is missing in %s",
                                      static_cast<int>(key.size()), key.data(), kind_name()));
  return member;
}

Json& Json::set(std::string key, Json value) {
  if (is_null()) value_ = Object{};
  CHECK(is_object());
  auto& object = std::get<Object>(value_);
  for (auto& [name, member] : object) {
    if (name == key) {
      member = std::move(value);
      return *this;
    }
  }
  object.emplace_back(std::move(key), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  if (is_null()) value_ = Array{};
  CHECK(is_array());
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

std::string Json::dump(int indent) const {
  return to_wide(*this).dump(indent, ' ', false, Wide::error_handler_t::replace);
}

Result<Json> Json::parse(std::string_view text) {
  Builder builder;
  try {
    if (Wide::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
  } catch (const std::exception& e) {
    return fail(Errc::kInvalid, strf("JSON: %s", e.what()));
  }
  return fail(Errc::kInvalid, builder.error().empty() ? "JSON: unreadable" : builder.error());
}

}  // namespace modeld
