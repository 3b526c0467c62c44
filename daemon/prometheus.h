// Text in the Prometheus exposition format (0.0.4), written into a buffer made once: HELP and TYPE
// of a family, then its samples. This is not a registry: who writes calls in order, all samples of
// a family right after its head. Contract: label values and help texts are escaped; a sample is
// whole or not there (is_whole() tells); nothing allocates after construction. Times go in as ns
// and out as seconds. Threading: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace modeld::daemon {

// Durations, counted by upper bound: from a hop between two processes to a frame that is long lost.
class Histogram {
 public:
  static constexpr std::array<int64_t, 18> kBoundsNs = {
      50'000,     100'000,     250'000,     500'000,     1'000'000,   2'500'000,
      5'000'000,  10'000'000,  20'000'000,  30'000'000,  40'000'000,  50'000'000,
      75'000'000, 100'000'000, 150'000'000, 250'000'000, 500'000'000, 1'000'000'000};
  void add(int64_t ns);
  // At most kBoundsNs[bound] long; as the format wants it: every smaller one is in it.
  uint64_t at_most(size_t bound) const;
  uint64_t count() const { return count_; }
  int64_t sum_ns() const { return sum_ns_; }

 private:
  std::array<uint64_t, kBoundsNs.size()> counts_{};  // each for itself
  uint64_t count_ = 0;
  int64_t sum_ns_ = 0;
};

struct Label {
  std::string_view name;
  std::string_view value;  // any text
};

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

class PrometheusText {
 public:
  explicit PrometheusText(size_t capacity_bytes);

  void clear();
  // `name` and label names are ours: [a-z_]+.
  void family(std::string_view name, MetricType type, std::string_view help);
  void sample(std::span<const Label> labels, double value);
  void sample(std::initializer_list<Label> labels, double value) {
    sample(std::span(labels.begin(), labels.size()), value);
  }
  void histogram(std::initializer_list<Label> labels, const Histogram& h);

  std::string_view text() const { return {bytes_.get(), used_}; }
  bool is_whole() const { return is_whole_; }

 private:
  void put(std::string_view text);
  void put_escaped(std::string_view text, bool is_label);
  void put_number(double value);
  void put_line(std::string_view suffix,
                std::span<const Label> labels,
                const Label* more,
                double value);
  // The line begun at `start` stays only if all of it fitted.
  void end_line(size_t start);

  size_t capacity_;
  std::unique_ptr<char[]> bytes_;
  size_t used_ = 0;
  std::string_view family_;
  bool is_whole_ = true;
  bool fits_ = true;  // the line under way
};

}  // namespace modeld::daemon
