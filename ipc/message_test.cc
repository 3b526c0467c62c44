#include "ipc/message.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>
#include <random>

#include "ipc/message_fields.h"

namespace modeld::ipc {
namespace {

// Fills any float array with values that differ from place to place.
template <size_t N>
void number(std::array<float, N>& out, float& next) {
  for (float& f : out) f = next += 0.5f;
}
template <size_t N>
void number(Mdn<N>& out, float& next) {
  number(out.mean, next);
  number(out.std, next);
}

Header sample_header() {
  Header h;
  h.time_ns = 123456789;
  h.sequence = 42;
  h.frame_id = 7;
  h.valid = true;
  h.degraded = true;
  h.state = ModelState::kDegraded;
  h.reason = Reason::kDeviceLost;
  h.simulated = true;
  return h;
}

VehicleInputs sample_vehicle() {
  VehicleInputs v;
  v.time_ns = 99;
  v.calibration_known = true;
  v.rpy_calibration = {0.1f, -0.2f, 0.3f};
  v.desire[3] = 1;
  v.right_hand_drive = true;
  v.lateral_action_time = 0.25f;
  v.longitudinal_action_time = 0.5f;
  v.speed = 21.5f;
  return v;
}

RoadMessage sample_road() {
  RoadMessage m;
  m.header = sample_header();
  m.road_frame_id = 7;
  m.wide_frame_id = 8;
  m.timings = Timings{1, 2, 3, 4, 5, 6, 7, 8, 9};
  m.run = RunIdentity{2, 30, true};
  m.vehicle = sample_vehicle();
  float next = 0;
  number(m.plan, next);
  number(m.lane_lines, next);
  number(m.lane_line_probs, next);
  number(m.road_edges, next);
  number(m.leads, next);
  number(m.lead_probs, next);
  number(m.pose, next);
  number(m.road_transform, next);
  number(m.wide_from_device_euler, next);
  number(m.meta, next);
  number(m.desire_pred, next);
  number(m.desire_state, next);
  number(m.action, next);
  m.has_action = true;
  m.raw = {1.5f, -2.5f, 3.5f};
  return m;
}

CabinMessage sample_cabin() {
  CabinMessage m;
  m.header = sample_header();
  m.cabin_frame_id = 5;
  m.timings = Timings{9, 8, 7, 6, 5, 4, 3, 2, 1};
  m.run = RunIdentity{1, 1, true};
  m.vehicle = sample_vehicle();
  float next = 100;
  for (CabinSide* const side : {&m.lhd, &m.rhd}) {
    number(side->face, next);
    for (float* const f : {&side->face_prob, &side->left_eye_prob, &side->right_eye_prob,
                           &side->left_blink_prob, &side->right_blink_prob, &side->sunglasses_prob,
                           &side->using_phone_prob, &side->sleep_prob})
      *f = next += 0.5f;
  }
  m.wheel_on_right_prob = 0.125f;
  m.raw = {4, 5};
  return m;
}

StateMessage sample_state() {
  StateMessage m;
  m.header = sample_header();
  ModelStatus road;
  road.name = "road";
  road.state = ModelState::kUnavailable;
  road.reason = Reason::kNonFinite;
  road.text = "output 12 is nan";
  road.since_ns = 5;
  road.bundle_path = "/x/road.bundle";
  road.bundle_id = "abcd";
  road.device = "cpu";
  road.simulated = true;
  road.context_frames = 24;
  road.context_filled = 3;
  uint64_t n = 10;
  for (uint64_t* const counter :
       {&road.resets, &road.unavailable_entries, &road.unavailable_after_ready,
        &road.frames_accepted, &road.frames_late, &road.frames_dropped, &road.timeouts,
        &road.non_finite, &road.worker_starts, &road.compiled_calls})
    *counter = n++;
  road.ready_once = true;
  ModelStatus cabin;
  cabin.name = "cabin";
  m.models = {road, cabin};
  m.source = "synth;seed=1";
  m.camera_connected = true;
  m.pid = 77;
  m.start_ns = 88;
  m.version = "0.1.0";
  return m;
}

template <class M>
M round_trip(const M& message) {
  MessageBuffer buffer;
  EXPECT_TRUE(build_message(message, buffer).ok());
  M out;
  const Status read = read_message(buffer.bytes(), out);
  EXPECT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(out.header, message.header);
  return out;
}

TEST(Message, RoadRoundTripKeepsEveryField) {
  const RoadMessage in = sample_road();
  const RoadMessage out = round_trip(in);
  EXPECT_EQ(out.road_frame_id, in.road_frame_id);
  EXPECT_EQ(out.wide_frame_id, in.wide_frame_id);
  EXPECT_EQ(out.timings, in.timings);
  EXPECT_EQ(out.run, in.run);
  EXPECT_EQ(out.vehicle, in.vehicle);
  EXPECT_EQ(out.plan, in.plan);
  EXPECT_EQ(out.lane_lines, in.lane_lines);
  EXPECT_EQ(out.lane_line_probs, in.lane_line_probs);
  EXPECT_EQ(out.road_edges, in.road_edges);
  EXPECT_EQ(out.leads, in.leads);
  EXPECT_EQ(out.lead_probs, in.lead_probs);
  EXPECT_EQ(out.pose, in.pose);
  EXPECT_EQ(out.road_transform, in.road_transform);
  EXPECT_EQ(out.wide_from_device_euler, in.wide_from_device_euler);
  EXPECT_EQ(out.meta, in.meta);
  EXPECT_EQ(out.desire_pred, in.desire_pred);
  EXPECT_EQ(out.desire_state, in.desire_state);
  EXPECT_EQ(out.action, in.action);
  EXPECT_TRUE(out.has_action);
  EXPECT_EQ(out.raw, in.raw);
}

TEST(Message, CabinRoundTripKeepsEveryField) {
  const CabinMessage in = sample_cabin();
  const CabinMessage out = round_trip(in);
  EXPECT_EQ(out.cabin_frame_id, in.cabin_frame_id);
  EXPECT_EQ(out.timings, in.timings);
  EXPECT_EQ(out.run, in.run);
  EXPECT_EQ(out.vehicle, in.vehicle);
  EXPECT_EQ(out.lhd, in.lhd);
  EXPECT_EQ(out.rhd, in.rhd);
  EXPECT_EQ(out.wheel_on_right_prob, in.wheel_on_right_prob);
  EXPECT_EQ(out.raw, in.raw);
}

TEST(Message, StateRoundTripKeepsEveryField) {
  const StateMessage in = sample_state();
  const StateMessage out = round_trip(in);
  EXPECT_EQ(out.models, in.models);
  EXPECT_EQ(out.source, in.source);
  EXPECT_TRUE(out.camera_connected);
  EXPECT_EQ(out.pid, in.pid);
  EXPECT_EQ(out.start_ns, in.start_ns);
  EXPECT_EQ(out.version, in.version);
}

TEST(Message, VehicleAndMetricsRoundTrip) {
  VehicleMessage vehicle;
  vehicle.header = sample_header();
  vehicle.inputs = sample_vehicle();
  vehicle.source = "synth;seed=3";
  const VehicleMessage vehicle_out = round_trip(vehicle);
  EXPECT_EQ(vehicle_out.inputs, vehicle.inputs);
  EXPECT_EQ(vehicle_out.source, vehicle.source);

  MetricsMessage metrics;
  metrics.header = sample_header();
  metrics.counters = {{"frames_total{model=\"road\"}", 12}, {"x", 0.5}};
  metrics.latencies = {{"run_ns", 100, 1, 2, 3, 4}};
  const MetricsMessage metrics_out = round_trip(metrics);
  ASSERT_EQ(metrics_out.counters.size(), 2u);
  EXPECT_EQ(metrics_out.counters[1].value, 0.5);
  ASSERT_EQ(metrics_out.latencies.size(), 1u);
  EXPECT_EQ(metrics_out.latencies[0].p99_ns, 3);
}

TEST(Message, AnInvalidMessageHasFullSizeLists) {
  MessageBuffer buffer;
  ASSERT_TRUE(build_message(RoadMessage{}, buffer).ok());
  std::vector<uint64_t> words(buffer.bytes().size() / 8);
  std::memcpy(words.data(), buffer.bytes().data(), buffer.bytes().size());
  capnp::FlatArrayMessageReader reader(
      kj::arrayPtr(reinterpret_cast<const capnp::word*>(words.data()), words.size()));
  const auto envelope = reader.getRoot<schema::Envelope>();
  EXPECT_FALSE(envelope.getValid());
  const auto road = envelope.getRoad();
  EXPECT_EQ(road.getPlan().getMean().size(), 33u * 15);
  EXPECT_EQ(road.getPlan().getStd().size(), 33u * 15);
  EXPECT_EQ(road.getLaneLines().getMean().size(), 4u * 33 * 2);
  EXPECT_EQ(road.getRoadEdges().getMean().size(), 2u * 33 * 2);
  EXPECT_EQ(road.getLeads().getMean().size(), 3u * 6 * 4);
  EXPECT_EQ(road.getMeta().size(), 55u);
  EXPECT_EQ(road.getDesirePred().size(), 32u);
  EXPECT_EQ(road.getRaw().size(), 0u);
}

TEST(Message, ABufferUsedAgainLeavesNothingOfTheLastMessage) {
  MessageBuffer used;
  ASSERT_TRUE(build_message(sample_road(), used).ok());
  ASSERT_TRUE(build_message(RoadMessage{}, used).ok());
  MessageBuffer fresh;
  ASSERT_TRUE(build_message(RoadMessage{}, fresh).ok());
  ASSERT_EQ(used.bytes().size(), fresh.bytes().size());
  EXPECT_EQ(std::memcmp(used.bytes().data(), fresh.bytes().data(), fresh.bytes().size()), 0);
}

TEST(Message, AMessageThatDoesNotFitIsAnErrorAndTheBufferStaysUsable) {
  MessageBuffer small(2048);
  EXPECT_FALSE(build_message(sample_road(), small).ok());
  EXPECT_TRUE(small.bytes().empty());
  ASSERT_TRUE(build_message(VehicleMessage{}, small).ok());
  VehicleMessage out;
  EXPECT_TRUE(read_message(small.bytes(), out).ok());
}

TEST(Message, TooLongARawVectorIsRefused) {
  RoadMessage message;
  message.raw.resize(kMaxRawFloats + 1);
  MessageBuffer buffer;
  EXPECT_FALSE(build_message(message, buffer).ok());
  message.raw.resize(kMaxRawFloats);
  EXPECT_TRUE(build_message(message, buffer).ok());
  RoadMessage out;
  EXPECT_TRUE(read_message(buffer.bytes(), out).ok());
  EXPECT_EQ(out.raw.size(), kMaxRawFloats);
}

TEST(Message, LongTextIsCutOnBuilding) {
  StateMessage message = sample_state();
  message.models[0].text = std::string(2000, 'x');
  MessageBuffer buffer;
  ASSERT_TRUE(build_message(message, buffer).ok());
  StateMessage out;
  ASSERT_TRUE(read_message(buffer.bytes(), out).ok());
  EXPECT_EQ(out.models[0].text, std::string(kMaxText, 'x'));
}

TEST(Message, AnotherTopicIsAMismatchThatNamesBoth) {
  MessageBuffer buffer;
  ASSERT_TRUE(build_message(sample_cabin(), buffer).ok());
  RoadMessage out;
  const Status read = read_message(buffer.bytes(), out);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Errc::kMismatch);
  EXPECT_THAT(read.error().what, testing::HasSubstr("cabin"));
  Header header;
  const auto topic = read_topic(buffer.bytes(), header);
  ASSERT_TRUE(topic.ok());
  EXPECT_EQ(*topic, Topic::kCabin);
  EXPECT_EQ(header.frame_id, 7u);
}

TEST(Message, UnalignedBytesAreRead) {
  MessageBuffer buffer;
  ASSERT_TRUE(build_message(sample_road(), buffer).ok());
  std::vector<std::byte> shifted(buffer.bytes().size() + 1);
  std::memcpy(shifted.data() + 1, buffer.bytes().data(), buffer.bytes().size());
  RoadMessage out;
  EXPECT_TRUE(read_message(std::span(shifted).subspan(1), out).ok());
  EXPECT_EQ(out.plan, sample_road().plan);
}

TEST(Message, EveryTruncationIsAnError) {
  MessageBuffer buffer;
  ASSERT_TRUE(build_message(sample_road(), buffer).ok());
  for (size_t n = 0; n < buffer.bytes().size(); n += n < 600 ? 1 : 97) {
    RoadMessage out;
    EXPECT_FALSE(read_message(buffer.bytes().first(n), out).ok()) << n;
  }
}

TEST(Message, FlippedBytesNeverDoMoreThanFail) {
  MessageBuffer buffer;
  ASSERT_TRUE(build_message(sample_state(), buffer).ok());
  const std::vector<std::byte> good(buffer.bytes().begin(), buffer.bytes().end());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::byte> bad = good;
    for (int k = 0; k < 3; ++k)
      bad[random() % bad.size()] = static_cast<std::byte>(random() & 0xff);
    StateMessage out;
    if (!read_message(bad, out).ok()) ++refused;
  }
  EXPECT_GT(refused, 100);
}

// A hand-made message with one list too short.
TEST(Message, AShortListIsRefused) {
  capnp::MallocMessageBuilder builder;
  auto vehicle = builder.initRoot<schema::Envelope>().initVehicle();
  vehicle.initRpyCalibration(3);
  vehicle.initDesire(7);
  const auto words = capnp::messageToFlatArray(builder);
  VehicleMessage out;
  const Status read = read_message(std::as_bytes(std::span(words.begin(), words.size())), out);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().what, testing::HasSubstr("desire has 7 entries, need 8"));
}

TEST(Message, AnUnknownEnumValueIsRefused) {
  capnp::MallocMessageBuilder builder;
  auto envelope = builder.initRoot<schema::Envelope>();
  envelope.setState(static_cast<schema::ModelState>(6));
  envelope.initModels();
  const auto words = capnp::messageToFlatArray(builder);
  StateMessage out;
  EXPECT_FALSE(read_message(std::as_bytes(std::span(words.begin(), words.size())), out).ok());
}

TEST(Message, TextOverTheLimitIsRefused) {
  for (const size_t bytes : {kMaxText, kMaxText + 1}) {
    capnp::MallocMessageBuilder builder;
    auto counters = builder.initRoot<schema::Envelope>().initMetrics().initCounters(1);
    counters[0].setName(std::string(bytes, 'n').c_str());
    const auto words = capnp::messageToFlatArray(builder);
    MetricsMessage out;
    EXPECT_EQ(read_message(std::as_bytes(std::span(words.begin(), words.size())), out).ok(),
              bytes == kMaxText);
  }
}

TEST(Message, TextBehindANulIsRefused) {
  VehicleMessage message;
  message.source = "synth;road";
  MessageBuffer buffer;
  ASSERT_TRUE(build_message(message, buffer).ok());
  std::string bytes(reinterpret_cast<const char*>(buffer.bytes().data()), buffer.bytes().size());
  const size_t at = bytes.find("synth;road");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 5] = '\0';
  VehicleMessage out;
  const Status read = read_message(std::as_bytes(std::span(bytes)), out);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().what.find("source"), std::string::npos) << read.error().what;
}

TEST(Message, MoreModelsOrMetricsThanTheLimitAreRefused) {
  capnp::MallocMessageBuilder builder;
  builder.initRoot<schema::Envelope>().initModels().initModels(kMaxModels + 1);
  const auto words = capnp::messageToFlatArray(builder);
  StateMessage out;
  EXPECT_FALSE(read_message(std::as_bytes(std::span(words.begin(), words.size())), out).ok());
  StateMessage many;
  many.models.resize(kMaxModels + 1);
  MessageBuffer buffer;
  EXPECT_FALSE(build_message(many, buffer).ok());
}

TEST(Message, AnOversizedMessageIsRefusedUnread) {
  std::vector<uint64_t> words(kMaxMessageBytes / 8 + 1);
  RoadMessage out;
  EXPECT_FALSE(read_message(std::as_bytes(std::span(words)), out).ok());
}

TEST(Message, ValidIsFalseUnlessSaid) {
  capnp::MallocMessageBuilder builder;
  EXPECT_FALSE(builder.initRoot<schema::Envelope>().asReader().getValid());
}

}  // namespace
}  // namespace modeld::ipc
