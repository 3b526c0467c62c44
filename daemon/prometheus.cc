#include "daemon/prometheus.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace modeld::daemon {
namespace {

constexpr double kNsPerSecondF = 1e9;
// Whole numbers up to here are exact.
constexpr double kLargestWhole = 9007199254740992.0;

const char* type_name(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

std::string_view number_text(double value, std::span<char> room) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  const bool is_whole = std::floor(value) == value && std::abs(value) < kLargestWhole;
  const int n = snprintf(room.data(), room.size(), is_whole ? "%.0f" : "%.9g", value);
  return {room.data(), static_cast<size_t>(std::max(n, 0))};
}

}  // namespace

void Histogram::add(int64_t ns) {
  const auto at = std::lower_bound(kBoundsNs.begin(), kBoundsNs.end(), ns);
  if (at != kBoundsNs.end()) ++counts_[static_cast<size_t>(at - kBoundsNs.begin())];
  ++count_;
  sum_ns_ += std::max<int64_t>(ns, 0);
}

uint64_t Histogram::at_most(size_t bound) const {
  uint64_t sum = 0;
  for (size_t i = 0; i <= bound; ++i) sum += counts_[i];
  return sum;
}

PrometheusText::PrometheusText(size_t capacity_bytes)
    : capacity_(capacity_bytes), bytes_(std::make_unique<char[]>(capacity_bytes)) {}

void PrometheusText::clear() {
  used_ = 0;
  is_whole_ = true;
}

void PrometheusText::put(std::string_view text) {
  fits_ = fits_ && text.size() <= capacity_ - used_;
  if (!fits_) return;
  std::memcpy(bytes_.get() + used_, text.data(), text.size());
  used_ += text.size();
}

void PrometheusText::put_escaped(std::string_view text, bool is_label) {
  for (const char c : text) {
    if (c == '\\') {
      put("\\\\");
    } else if (c == '\n') {
      put("\\n");
    } else if (c == '"' && is_label) {
      put("\\\"");
    } else {
      put({&c, 1});
    }
  }
}

void PrometheusText::put_number(double value) {
  char room[40];
  put(number_text(value, room));
}

void PrometheusText::end_line(size_t start) {
  put("\n");
  if (fits_) return;
  used_ = start;
  is_whole_ = false;
}

void PrometheusText::family(std::string_view name, MetricType type, std::string_view help) {
  family_ = name;
  const size_t start = used_;
  fits_ = true;
  put("# HELP ");
  put(name);
  put(" ");
  put_escaped(help, false);
  put("\n# TYPE ");
  put(name);
  put(" ");
  put(type_name(type));
  end_line(start);
}

void PrometheusText::put_line(std::string_view suffix,
                              std::span<const Label> labels,
                              const Label* more,
                              double value) {
  const size_t start = used_;
  fits_ = true;
  put(family_);
  put(suffix);
  char separator = '{';
  const auto put_label = [&](const Label& l) {
    put({&separator, 1});
    put(l.name);
    put("=\"");
    put_escaped(l.value, true);
    put("\"");
    separator = ',';
  };
  for (const Label& l : labels) put_label(l);
  if (more != nullptr) put_label(*more);
  if (separator == ',') put("}");
  put(" ");
  put_number(value);
  end_line(start);
}

void PrometheusText::sample(std::span<const Label> labels, double value) {
  put_line("", labels, nullptr, value);
}

void PrometheusText::histogram(std::initializer_list<Label> labels, const Histogram& h) {
  const std::span<const Label> all(labels.begin(), labels.size());
  for (size_t i = 0; i < Histogram::kBoundsNs.size(); ++i) {
    char room[40];
    const Label bound{
        "le", number_text(static_cast<double>(Histogram::kBoundsNs[i]) / kNsPerSecondF, room)};
    put_line("_bucket", all, &bound, static_cast<double>(h.at_most(i)));
  }
  const Label rest{"le", "+Inf"};
  put_line("_bucket", all, &rest, static_cast<double>(h.count()));
  put_line("_sum", all, nullptr, static_cast<double>(h.sum_ns()) / kNsPerSecondF);
  put_line("_count", all, nullptr, static_cast<double>(h.count()));
}

}  // namespace modeld::daemon
