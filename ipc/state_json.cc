#include "ipc/state_json.h"

#include "hal/base/clock.h"

namespace modeld::ipc {
namespace {

double seconds_between(int64_t from, int64_t to) {
  return to > from ? static_cast<double>((to - from) / kNsPerMs) / 1000.0 : 0.0;
}

Json model_to_json(const ModelStatus& model, int64_t now) {
  Json out = Json::object();
  out.set("name", model.name);
  out.set("state", model_state_name(model.state));
  out.set("reason", reason_name(model.reason));
  out.set("text", model.text);
  out.set("since_s", seconds_between(model.since_ns, now));
  out.set("bundle", model.bundle_path);
  out.set("bundle_id", model.bundle_id);
  out.set("device", model.device);
  out.set("simulated", model.simulated);
  out.set("context_frames", model.context_frames);
  out.set("context_filled", model.context_filled);
  out.set("resets", model.resets);
  out.set("ready_once", model.ready_once);
  out.set("unavailable_entries", model.unavailable_entries);
  out.set("unavailable_after_ready", model.unavailable_after_ready);
  out.set("frames_accepted", model.frames_accepted);
  out.set("frames_late", model.frames_late);
  out.set("frames_dropped", model.frames_dropped);
  out.set("timeouts", model.timeouts);
  out.set("non_finite", model.non_finite);
  out.set("worker_starts", model.worker_starts);
  out.set("compiled_calls", model.compiled_calls);
  return out;
}

}  // namespace

Json state_to_json(const StateMessage& message, int64_t now) {
  Json camera = Json::object();
  camera.set("connected", message.camera_connected);
  camera.set("source", message.source);
  Json models = Json::array();
  for (const ModelStatus& model : message.models) models.push(model_to_json(model, now));
  Json out = Json::object();
  out.set("ok", true);
  out.set("version", message.version);
  out.set("pid", message.pid);
  out.set("uptime_s", seconds_between(message.start_ns, now));
  out.set("camera", std::move(camera));
  out.set("models", std::move(models));
  return out;
}

}  // namespace modeld::ipc
