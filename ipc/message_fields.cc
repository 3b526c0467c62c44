#include "ipc/message_fields.h"

#include <cstring>

#include "ipc/message.h"

namespace modeld::ipc {
namespace {

using Floats = capnp::List<float>;

template <size_t N>
void fill_list(Floats::Builder out, const std::array<float, N>& in) {
  for (size_t i = 0; i < N; ++i) out.set(static_cast<unsigned>(i), in[i]);
}

template <size_t N>
void fill_mdn(schema::Mdn::Builder out, const Mdn<N>& in) {
  fill_list(out.initMean(N), in.mean);
  fill_list(out.initStd(N), in.std);
}

template <size_t N>
Status take_list(const char* what, Floats::Reader in, std::array<float, N>& out) {
  if (in.size() != N)
    return fail(Errc::kCorrupt, strf("message: %s has %u entries, need %zu", what, in.size(), N));
  for (size_t i = 0; i < N; ++i) out[i] = in[static_cast<unsigned>(i)];
  return {};
}

template <size_t N>
Status take_mdn(const char* what, schema::Mdn::Reader in, Mdn<N>& out) {
  RETURN_IF_ERROR(take_list(what, in.getMean(), out.mean));
  return take_list(what, in.getStd(), out.std);
}

void fill_raw(Floats::Builder out, const std::vector<float>& in) {
  for (size_t i = 0; i < in.size(); ++i) out.set(static_cast<unsigned>(i), in[i]);
}

Status take_raw(Floats::Reader in, std::vector<float>& out) {
  if (in.size() > kMaxRawFloats)
    return fail(Errc::kCorrupt,
                strf("message: raw has %u entries, limit %u", in.size(), kMaxRawFloats));
  out.resize(in.size());
  for (unsigned i = 0; i < in.size(); ++i) out[i] = in[i];
  return {};
}

void fill_timings(schema::Timings::Builder out, const Timings& in) {
  out.setSofNs(in.sof_ns);
  out.setEofNs(in.eof_ns);
  out.setReceivedNs(in.received_ns);
  out.setHandedOverNs(in.handed_over_ns);
  out.setAnsweredNs(in.answered_ns);
  out.setLatencyNs(in.latency_ns);
  out.setPreviousLatencyNs(in.previous_latency_ns);
  out.setWarpNs(in.warp_ns);
  out.setRunNs(in.run_ns);
}

Timings take_timings(schema::Timings::Reader in) {
  Timings out;
  out.sof_ns = in.getSofNs();
  out.eof_ns = in.getEofNs();
  out.received_ns = in.getReceivedNs();
  out.handed_over_ns = in.getHandedOverNs();
  out.answered_ns = in.getAnsweredNs();
  out.latency_ns = in.getLatencyNs();
  out.previous_latency_ns = in.getPreviousLatencyNs();
  out.warp_ns = in.getWarpNs();
  out.run_ns = in.getRunNs();
  return out;
}

void fill_run(schema::RunIdentity::Builder out, const RunIdentity& in) {
  out.setResets(in.resets);
  out.setSinceReset(in.since_reset);
  out.setAccepted(in.accepted);
}

RunIdentity take_run(schema::RunIdentity::Reader in) {
  return RunIdentity{in.getResets(), in.getSinceReset(), in.getAccepted()};
}

void fill_side(schema::Side::Builder out, const CabinSide& in) {
  fill_mdn(out.initFace(), in.face);
  out.setFaceProb(in.face_prob);
  out.setLeftEyeProb(in.left_eye_prob);
  out.setRightEyeProb(in.right_eye_prob);
  out.setLeftBlinkProb(in.left_blink_prob);
  out.setRightBlinkProb(in.right_blink_prob);
  out.setSunglassesProb(in.sunglasses_prob);
  out.setUsingPhoneProb(in.using_phone_prob);
  out.setSleepProb(in.sleep_prob);
}

Status take_side(schema::Side::Reader in, CabinSide& out) {
  RETURN_IF_ERROR(take_mdn("face", in.getFace(), out.face));
  out.face_prob = in.getFaceProb();
  out.left_eye_prob = in.getLeftEyeProb();
  out.right_eye_prob = in.getRightEyeProb();
  out.left_blink_prob = in.getLeftBlinkProb();
  out.right_blink_prob = in.getRightBlinkProb();
  out.sunglasses_prob = in.getSunglassesProb();
  out.using_phone_prob = in.getUsingPhoneProb();
  out.sleep_prob = in.getSleepProb();
  return {};
}

void fill_model(schema::ModelStatus::Builder out, const ModelStatus& in) {
  char cut[520];
  out.setName(cut_text(in.name, cut));
  out.setState(static_cast<schema::ModelState>(in.state));
  out.setReason(static_cast<schema::Reason>(in.reason));
  out.setText(cut_text(in.text, cut));
  out.setSinceNs(in.since_ns);
  out.setBundlePath(cut_text(in.bundle_path, cut));
  out.setBundleId(cut_text(in.bundle_id, cut));
  out.setDevice(cut_text(in.device, cut));
  out.setSimulated(in.simulated);
  out.setContextFrames(in.context_frames);
  out.setContextFilled(in.context_filled);
  out.setResets(in.resets);
  out.setUnavailableEntries(in.unavailable_entries);
  out.setUnavailableAfterReady(in.unavailable_after_ready);
  out.setFramesAccepted(in.frames_accepted);
  out.setFramesLate(in.frames_late);
  out.setFramesDropped(in.frames_dropped);
  out.setTimeouts(in.timeouts);
  out.setNonFinite(in.non_finite);
  out.setWorkerStarts(in.worker_starts);
  out.setCompiledCalls(in.compiled_calls);
  out.setReadyOnce(in.ready_once);
}

Status take_model(schema::ModelStatus::Reader in, ModelStatus& out) {
  RETURN_IF_ERROR(take_text("name", in.getName(), out.name));
  ASSIGN_OR_RETURN(out.state, take_model_state(in.getState()));
  ASSIGN_OR_RETURN(out.reason, take_reason(in.getReason()));
  RETURN_IF_ERROR(take_text("text", in.getText(), out.text));
  out.since_ns = in.getSinceNs();
  RETURN_IF_ERROR(take_text("bundlePath", in.getBundlePath(), out.bundle_path));
  RETURN_IF_ERROR(take_text("bundleId", in.getBundleId(), out.bundle_id));
  RETURN_IF_ERROR(take_text("device", in.getDevice(), out.device));
  out.simulated = in.getSimulated();
  out.context_frames = in.getContextFrames();
  out.context_filled = in.getContextFilled();
  out.resets = in.getResets();
  out.unavailable_entries = in.getUnavailableEntries();
  out.unavailable_after_ready = in.getUnavailableAfterReady();
  out.frames_accepted = in.getFramesAccepted();
  out.frames_late = in.getFramesLate();
  out.frames_dropped = in.getFramesDropped();
  out.timeouts = in.getTimeouts();
  out.non_finite = in.getNonFinite();
  out.worker_starts = in.getWorkerStarts();
  out.compiled_calls = in.getCompiledCalls();
  out.ready_once = in.getReadyOnce();
  return {};
}

}  // namespace

Result<ModelState> take_model_state(schema::ModelState value) {
  const auto v = static_cast<unsigned>(value);
  if (v >= kModelStateCount)
    return fail(Errc::kCorrupt,
                strf("message: model state %u, last is %d", v, kModelStateCount - 1));
  return static_cast<ModelState>(v);
}

Result<Reason> take_reason(schema::Reason value) {
  const auto v = static_cast<unsigned>(value);
  if (v >= kReasonCount)
    return fail(Errc::kCorrupt, strf("message: reason %u, last is %d", v, kReasonCount - 1));
  return static_cast<Reason>(v);
}

capnp::Text::Reader cut_text(const std::string& text, char (&buffer)[520]) {
  static_assert(kMaxText < sizeof(buffer));
  // Text ends at the first NUL: an embedded one must not travel either.
  const size_t n = strnlen(text.c_str(), std::min(text.size(), kMaxText));
  std::memcpy(buffer, text.data(), n);
  buffer[n] = '\0';
  return capnp::Text::Reader(buffer, n);
}

Status take_text(const char* what, capnp::Text::Reader in, std::string& out) {
  if (in.size() > kMaxText)
    return fail(Errc::kCorrupt,
                strf("message: %s has %zu bytes, limit %zu", what, in.size(), kMaxText));
  // Built text ends at its NUL (cut_text): what follows one would be seen by some readers only.
  if (std::memchr(in.begin(), '\0', in.size()) != nullptr)
    return fail(Errc::kCorrupt, strf("message: %s has a NUL inside", what));
  out.assign(in.begin(), in.size());
  return {};
}

void fill_vehicle(schema::Vehicle::Builder out, const VehicleInputs& in) {
  out.setTimeNs(in.time_ns);
  out.setCalibrationKnown(in.calibration_known);
  fill_list(out.initRpyCalibration(3), in.rpy_calibration);
  fill_list(out.initDesire(kDesireCount), in.desire);
  out.setRightHandDrive(in.right_hand_drive);
  out.setLateralActionTime(in.lateral_action_time);
  out.setLongitudinalActionTime(in.longitudinal_action_time);
  out.setSpeed(in.speed);
}

Status take_vehicle(schema::Vehicle::Reader in, VehicleInputs& out) {
  out.time_ns = in.getTimeNs();
  out.calibration_known = in.getCalibrationKnown();
  RETURN_IF_ERROR(take_list("rpyCalibration", in.getRpyCalibration(), out.rpy_calibration));
  RETURN_IF_ERROR(take_list("desire", in.getDesire(), out.desire));
  out.right_hand_drive = in.getRightHandDrive();
  out.lateral_action_time = in.getLateralActionTime();
  out.longitudinal_action_time = in.getLongitudinalActionTime();
  out.speed = in.getSpeed();
  return {};
}

void fill_road(schema::Road::Builder out, const RoadMessage& in) {
  out.setRoadFrameId(in.road_frame_id);
  out.setWideFrameId(in.wide_frame_id);
  fill_timings(out.initTimings(), in.timings);
  fill_run(out.initRun(), in.run);
  fill_vehicle(out.initVehicle(), in.vehicle);
  fill_mdn(out.initPlan(), in.plan);
  fill_mdn(out.initLaneLines(), in.lane_lines);
  fill_list(out.initLaneLineProbs(4), in.lane_line_probs);
  fill_mdn(out.initRoadEdges(), in.road_edges);
  fill_mdn(out.initLeads(), in.leads);
  fill_list(out.initLeadProbs(3), in.lead_probs);
  fill_mdn(out.initPose(), in.pose);
  fill_mdn(out.initRoadTransform(), in.road_transform);
  fill_mdn(out.initWideFromDeviceEuler(), in.wide_from_device_euler);
  fill_list(out.initMeta(kMetaCount), in.meta);
  fill_list(out.initDesirePred(4 * kDesireCount), in.desire_pred);
  fill_list(out.initDesireState(kDesireCount), in.desire_state);
  fill_list(out.initAction(2), in.action);
  out.setHasAction(in.has_action);
  out.setFrameDropPercent(in.frame_drop_percent);
  if (!in.raw.empty()) fill_raw(out.initRaw(static_cast<unsigned>(in.raw.size())), in.raw);
}

Status take_road(schema::Road::Reader in, RoadMessage& out) {
  out.road_frame_id = in.getRoadFrameId();
  out.wide_frame_id = in.getWideFrameId();
  out.timings = take_timings(in.getTimings());
  out.run = take_run(in.getRun());
  RETURN_IF_ERROR(take_vehicle(in.getVehicle(), out.vehicle));
  RETURN_IF_ERROR(take_mdn("plan", in.getPlan(), out.plan));
  RETURN_IF_ERROR(take_mdn("laneLines", in.getLaneLines(), out.lane_lines));
  RETURN_IF_ERROR(take_list("laneLineProbs", in.getLaneLineProbs(), out.lane_line_probs));
  RETURN_IF_ERROR(take_mdn("roadEdges", in.getRoadEdges(), out.road_edges));
  RETURN_IF_ERROR(take_mdn("leads", in.getLeads(), out.leads));
  RETURN_IF_ERROR(take_list("leadProbs", in.getLeadProbs(), out.lead_probs));
  RETURN_IF_ERROR(take_mdn("pose", in.getPose(), out.pose));
  RETURN_IF_ERROR(take_mdn("roadTransform", in.getRoadTransform(), out.road_transform));
  RETURN_IF_ERROR(
      take_mdn("wideFromDeviceEuler", in.getWideFromDeviceEuler(), out.wide_from_device_euler));
  RETURN_IF_ERROR(take_list("meta", in.getMeta(), out.meta));
  RETURN_IF_ERROR(take_list("desirePred", in.getDesirePred(), out.desire_pred));
  RETURN_IF_ERROR(take_list("desireState", in.getDesireState(), out.desire_state));
  RETURN_IF_ERROR(take_list("action", in.getAction(), out.action));
  out.has_action = in.getHasAction();
  out.frame_drop_percent = in.getFrameDropPercent();
  return take_raw(in.getRaw(), out.raw);
}

void fill_cabin(schema::Cabin::Builder out, const CabinMessage& in) {
  out.setCabinFrameId(in.cabin_frame_id);
  fill_timings(out.initTimings(), in.timings);
  fill_run(out.initRun(), in.run);
  fill_vehicle(out.initVehicle(), in.vehicle);
  fill_side(out.initLhd(), in.lhd);
  fill_side(out.initRhd(), in.rhd);
  out.setWheelOnRightProb(in.wheel_on_right_prob);
  out.setFrameDropPercent(in.frame_drop_percent);
  if (!in.raw.empty()) fill_raw(out.initRaw(static_cast<unsigned>(in.raw.size())), in.raw);
}

Status take_cabin(schema::Cabin::Reader in, CabinMessage& out) {
  out.cabin_frame_id = in.getCabinFrameId();
  out.timings = take_timings(in.getTimings());
  out.run = take_run(in.getRun());
  RETURN_IF_ERROR(take_vehicle(in.getVehicle(), out.vehicle));
  RETURN_IF_ERROR(take_side(in.getLhd(), out.lhd));
  RETURN_IF_ERROR(take_side(in.getRhd(), out.rhd));
  out.wheel_on_right_prob = in.getWheelOnRightProb();
  out.frame_drop_percent = in.getFrameDropPercent();
  return take_raw(in.getRaw(), out.raw);
}

void fill_state(schema::State::Builder out, const StateMessage& in) {
  char cut[520];
  auto models = out.initModels(static_cast<unsigned>(in.models.size()));
  for (unsigned i = 0; i < models.size(); ++i) fill_model(models[i], in.models[i]);
  out.setSource(cut_text(in.source, cut));
  out.setCameraConnected(in.camera_connected);
  out.setPid(in.pid);
  out.setStartNs(in.start_ns);
  out.setVersion(cut_text(in.version, cut));
}

Status take_state(schema::State::Reader in, StateMessage& out) {
  const auto models = in.getModels();
  if (models.size() > kMaxModels)
    return fail(Errc::kCorrupt, strf("message: %u models, limit %d", models.size(), kMaxModels));
  out.models.resize(models.size());
  for (unsigned i = 0; i < models.size(); ++i) {
    RETURN_IF_ERROR(take_model(models[i], out.models[i]));
  }
  RETURN_IF_ERROR(take_text("source", in.getSource(), out.source));
  out.camera_connected = in.getCameraConnected();
  out.pid = in.getPid();
  out.start_ns = in.getStartNs();
  return take_text("version", in.getVersion(), out.version);
}

void fill_metrics(schema::Metrics::Builder out, const MetricsMessage& in) {
  char cut[520];
  auto counters = out.initCounters(static_cast<unsigned>(in.counters.size()));
  for (unsigned i = 0; i < counters.size(); ++i) {
    counters[i].setName(cut_text(in.counters[i].name, cut));
    counters[i].setValue(in.counters[i].value);
  }
  auto latencies = out.initLatencies(static_cast<unsigned>(in.latencies.size()));
  for (unsigned i = 0; i < latencies.size(); ++i) {
    auto latency = latencies[i];
    latency.setName(cut_text(in.latencies[i].name, cut));
    latency.setCount(in.latencies[i].count);
    latency.setP50Ns(in.latencies[i].p50_ns);
    latency.setP90Ns(in.latencies[i].p90_ns);
    latency.setP99Ns(in.latencies[i].p99_ns);
    latency.setMaxNs(in.latencies[i].max_ns);
  }
}

Status take_metrics(schema::Metrics::Reader in, MetricsMessage& out) {
  const auto counters = in.getCounters();
  const auto latencies = in.getLatencies();
  if (counters.size() > kMaxMetrics || latencies.size() > kMaxMetrics)
    return fail(Errc::kCorrupt, strf("message: %u counters and %u latencies, limit %d",
                                     counters.size(), latencies.size(), kMaxMetrics));
  out.counters.resize(counters.size());
  for (unsigned i = 0; i < counters.size(); ++i) {
    RETURN_IF_ERROR(take_text("counter", counters[i].getName(), out.counters[i].name));
    out.counters[i].value = counters[i].getValue();
  }
  out.latencies.resize(latencies.size());
  for (unsigned i = 0; i < latencies.size(); ++i) {
    const auto in_latency = latencies[i];
    LatencyValue& latency = out.latencies[i];
    RETURN_IF_ERROR(take_text("latency", in_latency.getName(), latency.name));
    latency.count = in_latency.getCount();
    latency.p50_ns = in_latency.getP50Ns();
    latency.p90_ns = in_latency.getP90Ns();
    latency.p99_ns = in_latency.getP99Ns();
    latency.max_ns = in_latency.getMaxNs();
  }
  return {};
}

}  // namespace modeld::ipc
