#include "models/common/mdn.h"

#include <algorithm>
#include <cmath>

#include "hal/base/check.h"

namespace modeld::models {

namespace {
constexpr float kLargestExponent = 11.0f;
}  // namespace

float sigma_of(float log_sigma) {
  return std::exp(std::min(log_sigma, kLargestExponent));
}

float sigmoid_of(float x) {
  return 1.0f / (1.0f + std::exp(std::min(-x, kLargestExponent)));
}

void parse_gaussian(std::span<const float> raw, std::span<float> mean, std::span<float> sigma) {
  CHECK(raw.size() == mean.size() + sigma.size() && mean.size() == sigma.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    mean[i] = raw[i];
    sigma[i] = sigma_of(raw[mean.size() + i]);
  }
}

void parse_sigmoid(std::span<const float> raw, std::span<float> out) {
  CHECK(raw.size() == out.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = sigmoid_of(raw[i]);
}

void parse_softmax(std::span<const float> raw, size_t width, std::span<float> out) {
  CHECK(raw.size() == out.size() && width > 0 && raw.size() % width == 0);
  for (size_t row = 0; row < raw.size(); row += width) {
    const float highest = *std::max_element(raw.begin() + row, raw.begin() + row + width);
    float sum = 0;
    for (size_t i = row; i < row + width; ++i) {
      out[i] = std::exp(raw[i] - highest);
      sum += out[i];
    }
    for (size_t i = row; i < row + width; ++i) out[i] /= sum;
  }
}

void parse_hypotheses(std::span<const float> raw,
                      size_t in,
                      size_t outputs,
                      std::span<float> mean,
                      std::span<float> sigma) {
  CHECK(in > 0 && outputs > 0 && mean.size() == sigma.size() && mean.size() % outputs == 0);
  const size_t values = mean.size() / outputs;
  const size_t row = 2 * values + outputs;
  CHECK(raw.size() == in * row);
  for (size_t k = 0; k < outputs; ++k) {
    // The softmax over the hypotheses is monotone: the largest raw weight is the largest
    // probability.
    size_t best = 0;
    for (size_t h = 1; h < in; ++h) {
      if (raw[h * row + 2 * values + k] >= raw[best * row + 2 * values + k]) best = h;
    }
    parse_gaussian(raw.subspan(best * row, 2 * values), mean.subspan(k * values, values),
                   sigma.subspan(k * values, values));
  }
}

}  // namespace modeld::models
