#include "selftest/testing/prometheus_parser.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace modeld::testing_prometheus {
namespace {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

bool is_name(std::string_view s, bool is_label) {
  const auto fits = [&](char c, bool first) {
    const auto u = static_cast<unsigned char>(c);
    return std::isalpha(u) != 0 || c == '_' || (c == ':' && !is_label) ||
           (!first && std::isdigit(u) != 0);
  };
  for (size_t i = 0; i < s.size(); ++i) {
    if (!fits(s[i], i == 0)) return false;
  }
  return !s.empty();
}

bool ends_with(std::string_view s, std::string_view end) {
  return s.size() >= end.size() && s.substr(s.size() - end.size()) == end;
}

// One line; what is wrong with it is an error without the line's number.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) {}

  Result<Sample> sample() {
    Sample out;
    out.name = std::string(until("{ "));
    if (!is_name(out.name, false)) return fail(Errc::kCorrupt, "'" + out.name + "' is no name");
    if (take('{')) RETURN_IF_ERROR(labels(out));
    if (!take(' ')) return fail(Errc::kCorrupt, "no space before the value");
    ASSIGN_OR_RETURN(out.value, number(line_.substr(at_)));
    return out;
  }

 private:
  bool take(char c) {
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view until(std::string_view any) {
    const size_t end = std::min(line_.find_first_of(any, at_), line_.size());
    const std::string_view out = line_.substr(at_, end - at_);
    at_ = end;
    return out;
  }
  Status labels(Sample& out) {
    do {
      const std::string name(until("="));
      if (!is_name(name, true)) return fail(Errc::kCorrupt, "'" + name + "' is no label");
      if (!take('=') || !take('"')) return fail(Errc::kCorrupt, "label without a value");
      ASSIGN_OR_RETURN(const std::string value, quoted());
      if (!out.labels.emplace(name, value).second)
        return fail(Errc::kCorrupt, "label '" + name + "' comes twice");
    } while (take(','));
    if (!take('}')) return fail(Errc::kCorrupt, "labels do not end");
    return {};
  }
  Result<std::string> quoted() {
    std::string out;
    while (at_ < line_.size() && line_[at_] != '"') {
      if (!take('\\')) {
        out += line_[at_++];
        continue;
      }
      if (take('n')) {
        out += '\n';
      } else if (take('\\')) {
        out += '\\';
      } else if (take('"')) {
        out += '"';
      } else {
        return fail(Errc::kCorrupt, "escape that is none");
      }
    }
    if (!take('"')) return fail(Errc::kCorrupt, "label value does not end");
    return out;
  }
  static Result<double> number(std::string_view text) {
    if (text == "+Inf") return std::numeric_limits<double>::infinity();
    if (text == "-Inf") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::nan("");
    const std::string copy(text);
    char* end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    const bool is_plain =
        !copy.empty() && (std::isdigit(static_cast<unsigned char>(copy[0])) != 0 || copy[0] == '-');
    if (!is_plain || *end != '\0') return fail(Errc::kCorrupt, "'" + copy + "' is no number");
    return value;
  }

  std::string_view line_;
  size_t at_ = 0;
};

std::string key_of(const Sample& s) {
  std::string out = s.name;
  for (const auto& [name, value] : s.labels)
    out += (out.size() == s.name.size() ? "{" : ",") + name + "=" + value;
  return s.labels.empty() ? out : out + "}";
}

// Counts and bounds of one histogram's label set, as they came.
struct Buckets {
  std::vector<std::pair<double, double>> counts;  // upper bound, count
  double count = -1;
  bool has_sum = false;
};

class Parser {
 public:
  Result<Families> run(std::string_view text) {
    if (text.empty() || text.back() != '\n') return fail(Errc::kCorrupt, "no newline at the end");
    size_t number = 0;
    while (!text.empty()) {
      const size_t end = text.find('\n');
      ++number;
      if (Status s = line(text.substr(0, end)); !s.ok())
        return fail(Errc::kCorrupt, strf("line %zu: %s", number, s.error().what.c_str()));
      text.remove_prefix(end + 1);
    }
    RETURN_IF_ERROR(close_family());
    return std::move(out_);
  }

 private:
  Status line(std::string_view line) {
    if (line.rfind("# HELP ", 0) == 0) return head(line.substr(7));
    if (line.rfind("# TYPE ", 0) == 0) return type(line.substr(7));
    if (line.empty() || line[0] == '#') return fail(Errc::kCorrupt, "neither head nor sample");
    ASSIGN_OR_RETURN(const Sample sample, LineReader(line).sample());
    return keep(sample);
  }

  Status head(std::string_view rest) {
    RETURN_IF_ERROR(close_family());
    const size_t space = rest.find(' ');
    name_ = std::string(rest.substr(0, space));
    if (!is_name(name_, false)) return fail(Errc::kCorrupt, "'" + name_ + "' is no name");
    if (space == std::string_view::npos || space + 1 == rest.size())
      return fail(Errc::kCorrupt, "family without a help text");
    if (out_.count(name_) != 0) return fail(Errc::kCorrupt, name_ + " comes twice");
    out_[name_].help = std::string(rest.substr(space + 1));
    return {};
  }

  Status type(std::string_view rest) {
    const size_t space = std::min(rest.find(' '), rest.size());
    if (name_.empty() || rest.substr(0, space) != name_)
      return fail(Errc::kCorrupt, "TYPE of another family than HELP");
    Family& f = out_[name_];
    if (!f.type.empty()) return fail(Errc::kCorrupt, "TYPE comes twice");
    f.type = std::string(rest.substr(std::min(space + 1, rest.size())));
    if (f.type != "counter" && f.type != "gauge" && f.type != "histogram")
      return fail(Errc::kCorrupt, "type '" + f.type + "'");
    if ((f.type == "counter") != ends_with(name_, "_total"))
      return fail(Errc::kCorrupt, "counters, and only they, end in _total");
    return {};
  }

  Status keep(const Sample& s) {
    Family& f = out_[name_];
    if (name_.empty() || f.type.empty()) return fail(Errc::kCorrupt, "sample before its head");
    if (f.type == "histogram") {
      RETURN_IF_ERROR(keep_bucket(s));
    } else if (s.name != name_) {
      return fail(Errc::kCorrupt, s.name + " among the samples of " + name_);
    }
    if (f.type == "counter" && (!std::isfinite(s.value) || s.value < 0))
      return fail(Errc::kCorrupt, "counter that is negative or not finite");
    if (!f.samples.emplace(key_of(s), s.value).second)
      return fail(Errc::kCorrupt, key_of(s) + " comes twice");
    return {};
  }

  Status keep_bucket(const Sample& s) {
    Sample base = s;
    base.labels.erase("le");
    base.name = name_;
    Buckets& b = buckets_[key_of(base)];
    if (s.name == name_ + "_bucket") {
      const auto le = s.labels.find("le");
      if (le == s.labels.end()) return fail(Errc::kCorrupt, "bucket without a bound");
      const double bound = le->second == "+Inf" ? std::numeric_limits<double>::infinity()
                                                : std::strtod(le->second.c_str(), nullptr);
      if (!b.counts.empty() && (bound <= b.counts.back().first || s.value < b.counts.back().second))
        return fail(Errc::kCorrupt, "buckets are not cumulative");
      b.counts.emplace_back(bound, s.value);
    } else if (s.name == name_ + "_sum") {
      b.has_sum = true;
    } else if (s.name == name_ + "_count") {
      b.count = s.value;
    } else {
      return fail(Errc::kCorrupt, s.name + " among the samples of histogram " + name_);
    }
    return {};
  }

  Status close_family() {
    if (!name_.empty() && out_[name_].type.empty())
      return fail(Errc::kCorrupt, name_ + " has no TYPE");
    for (const auto& [key, b] : buckets_) {
      const bool has_rest = !b.counts.empty() && std::isinf(b.counts.back().first);
      if (!has_rest || b.counts.back().second != b.count || !b.has_sum)
        return fail(Errc::kCorrupt, key + ": +Inf, _count and _sum do not agree");
    }
    buckets_.clear();
    return {};
  }

  Families out_;
  std::string name_;
  std::map<std::string, Buckets> buckets_;
};

}  // namespace

Result<Families> parse(std::string_view text) {
  return Parser().run(text);
}

std::string first_fallen(const Families& before, const Families& after) {
  for (const auto& [name, family] : before) {
    if (family.type == "gauge") continue;
    const auto now = after.find(name);
    for (const auto& [key, value] : family.samples) {
      if (now == after.end() || now->second.samples.count(key) == 0) return key + " is gone";
      if (now->second.samples.at(key) < value) return key + " fell";
    }
  }
  return "";
}

}  // namespace modeld::testing_prometheus
