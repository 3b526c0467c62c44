#include "hal/base/fault.h"

#ifdef MODELD_FAULTS

#include "hal/base/env.h"
#include "hal/base/text.h"

namespace modeld::fault {

namespace {

// A part without a name in the variable itself is ignored: there is nobody to report to this early.
List& active() {
  static List list = parse(env_text("MODELD_FAULT")).value_or(List{});
  return list;
}

}  // namespace

Result<List> parse(std::string_view text) {
  List list;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    std::string name(trim(std::string_view(part).substr(0, equals)));
    if (name.empty())
      return fail(Errc::kInvalid, strf("MODELD_FAULT: part '%s' has no name", part.c_str()));
    list.emplace_back(std::move(name),
                      equals == std::string::npos
                          ? ""
                          : std::string(trim(std::string_view(part).substr(equals + 1))));
  }
  return list;
}

bool on(std::string_view name) {
  return value(name).has_value();
}

std::optional<std::string_view> value(std::string_view name) {
  for (const auto& [key, text] : active()) {
    if (key == name) return text;
  }
  return std::nullopt;
}

int64_t number(std::string_view name, int64_t fallback) {
  const std::optional<std::string_view> text = value(name);
  if (!text) return fallback;
  return parse_int(*text).value_or(fallback);
}

void set_for_test(std::string_view text) {
  active() = parse(text).value_or(List{});
}

}  // namespace modeld::fault

#endif
