// Pieces of the slice parsers: gaussians, sigmoids, softmaxes of raw output vectors.
// Contract: the clamps at 11 are those of the models' training; they hide an infinite raw number,
// so callers check the raw vector first (raw_check.h). No allocation. Threading: pure functions.
#pragma once

#include <span>

namespace modeld::models {

float sigma_of(float log_sigma);  // exp(min(x, 11))
float sigmoid_of(float x);        // 1 / (1 + exp(min(-x, 11)))

// raw = means, then log-sigmas; mean and sigma have half its size.
void parse_gaussian(std::span<const float> raw, std::span<float> mean, std::span<float> sigma);
void parse_sigmoid(std::span<const float> raw, std::span<float> out);
// Softmax over each row of `width` numbers, maximum subtracted first.
void parse_softmax(std::span<const float> raw, size_t width, std::span<float> out);

// `in` hypotheses of (means, log-sigmas, one weight per output); output k takes the hypothesis
// whose weight for it is highest (the later one when equal). mean.size() = outputs x values of a
// hypothesis.
void parse_hypotheses(std::span<const float> raw,
                      size_t in,
                      size_t outputs,
                      std::span<float> mean,
                      std::span<float> sigma);

}  // namespace modeld::models
