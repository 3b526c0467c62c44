// One frame on the CPU: stage, warps and run, finite check, commit, as the daemon's worker does
// them, on frames of the synthetic camera.
#include <cstdio>

#include "hal/backends.h"

#include "models/bundle/bundle_reader.h"
#include "models/model.h"

#include "selftest/bench/bench_frame.h"
#include "selftest/boot/frames.h"

namespace modeld::bench {
namespace {

constexpr double kLimitMs = 50;
constexpr int kWarmup = 5;
constexpr uint64_t kPictures = 8;  // drawn once: drawing is not what is measured
constexpr int64_t kDeadlineMs = 60'000;

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

struct Samples {
  std::vector<double> step, warp, run;
};

Status timed_step(models::Model& model, const models::FrameInputs& inputs, Samples* out) {
  const int64_t start = now_ns();
  RETURN_IF_ERROR(selftest::step(model, inputs, Deadline::in_ms(kDeadlineMs)));
  if (out == nullptr) return {};
  out->step.push_back(ms(now_ns() - start));
  out->warp.push_back(ms(model.times().warp_ns));
  out->run.push_back(ms(model.times().run_ns));
  return {};
}

Status run(const Options& options, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::string path, bundle_to_measure(options, dir));
  ASSIGN_OR_RETURN(const auto b, bundle::Bundle::open(path));
  hal::DeviceConfig config;
  config.threads = b->manifest().plan.target.threads;
  ASSIGN_OR_RETURN(const auto device, hal::open_device("cpu", config));
  const exec::Plan plan = b->to_plan();
  ASSIGN_OR_RETURN(const auto loaded, exec::LoadedPlan::load(plan, *device, b->sources()));
  ASSIGN_OR_RETURN(const auto model, models::make_model(b->manifest(), *loaded));
  ASSIGN_OR_RETURN(const selftest::Frames frames,
                   selftest::Frames::create(*device, *model, kPictures));
  const int count = options.count > 0 ? options.count : 200;
  Samples samples;
  for (int i = 0; i < kWarmup + count; ++i)
    RETURN_IF_ERROR(timed_step(*model, frames.inputs(static_cast<uint64_t>(i)),
                               i < kWarmup ? nullptr : &samples));
  Json out = Json::object();
  out.set("model", options.bundle.empty() ? options.role + " " + options.size + " " + options.dtype
                                          : base_name(options.bundle));
  out.set("threads", config.threads);
  out.set("frames", count);
  out.set("step_ms", stats_json(summarize(samples.step)));
  out.set("warp_ms", stats_json(summarize(samples.warp)));
  out.set("run_ms", stats_json(summarize(samples.run)));
  std::printf("%s\n", out.dump().c_str());
  const Stats s = summarize(samples.step);
  std::printf("bench_step: %s median %.2f ms, p99 %.2f ms (%s)\n", base_name(path).c_str(),
              s.median, s.p99, verdict(s.p99, kLimitMs).c_str());
  return {};
}

}  // namespace
}  // namespace modeld::bench

int main(int argc, char** argv) {
  modeld::bench::Options defaults;
  defaults.size = "small";
  return modeld::bench::bench_main(argc, argv, "Time of one frame on the CPU", defaults,
                                   modeld::bench::run);
}
