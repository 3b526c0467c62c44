#include "ipc/message.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ipc/message_fields.h"

namespace modeld::ipc {
namespace {

static_assert(static_cast<int>(schema::ModelState::UNAVAILABLE) ==
              static_cast<int>(ModelState::kUnavailable));
static_assert(static_cast<int>(schema::Reason::CONFIG) == static_cast<int>(Reason::kConfig));

// A reader may walk each word twice; deeper nesting than our schemas have is an attack.
constexpr uint64_t kTraversalLimitWords = 2 * kMaxMessageBytes / sizeof(uint64_t);
constexpr int kNestingLimit = 8;

// kj gives file, line and a stack as well; one clear line is enough.
tl::unexpected<Error> fail_kj(Errc code, const char* what, const kj::Exception& e) {
  const kj::StringPtr text = e.getDescription();
  return fail(code, strf("%s: %.*s", what, static_cast<int>(std::min<size_t>(text.size(), 200)),
                         text.cStr()));
}

void fill_header(schema::Envelope::Builder out, const Header& in) {
  out.setTimeNs(in.time_ns);
  out.setSequence(in.sequence);
  out.setFrameId(in.frame_id);
  out.setValid(in.valid);
  out.setDegraded(in.degraded);
  out.setState(static_cast<schema::ModelState>(in.state));
  out.setReason(static_cast<schema::Reason>(in.reason));
  out.setSimulated(in.simulated);
}

Status take_header(schema::Envelope::Reader in, Header& out) {
  out.time_ns = in.getTimeNs();
  out.sequence = in.getSequence();
  out.frame_id = in.getFrameId();
  out.valid = in.getValid();
  out.degraded = in.getDegraded();
  ASSIGN_OR_RETURN(out.state, take_model_state(in.getState()));
  ASSIGN_OR_RETURN(out.reason, take_reason(in.getReason()));
  out.simulated = in.getSimulated();
  return {};
}

const char* member_name(schema::Envelope::Which which) {
  switch (which) {
    case schema::Envelope::NONE:
      return "none";
    case schema::Envelope::VEHICLE:
      return "vehicle";
    case schema::Envelope::ROAD:
      return "road";
    case schema::Envelope::CABIN:
      return "cabin";
    case schema::Envelope::MODELS:
      return "state";
    case schema::Envelope::METRICS:
      return "metrics";
  }
  return "unknown";
}

// Opens an envelope under the limits and hands it to `take`, which checks everything it reads.
template <class Take>
Status open_words(kj::ArrayPtr<const capnp::word> words, const Take& take) {
  try {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = kTraversalLimitWords;
    options.nestingLimit = kNestingLimit;
    capnp::FlatArrayMessageReader reader(words, options);
    return take(reader.getRoot<schema::Envelope>());
  } catch (const kj::Exception& e) {
    return fail_kj(Errc::kCorrupt, "message", e);
  }
}

template <class Take>
Status open_bytes(std::span<const std::byte> bytes, const Take& take) {
  constexpr size_t kWord = sizeof(capnp::word);
  if (bytes.size() < 2 * kWord || bytes.size() > kMaxMessageBytes || bytes.size() % kWord != 0)
    return fail(Errc::kCorrupt, strf("message of %zu bytes: need a multiple of %zu from %zu to %zu",
                                     bytes.size(), kWord, 2 * kWord, kMaxMessageBytes));
  const size_t count = bytes.size() / kWord;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(uint64_t) == 0)
    return open_words(kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), count),
                      take);
  std::vector<uint64_t> aligned(count);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  return open_words(kj::arrayPtr(reinterpret_cast<const capnp::word*>(aligned.data()), count),
                    take);
}

template <class TakePayload>
Status read_payload(std::span<const std::byte> bytes,
                    schema::Envelope::Which want,
                    Header& header,
                    const TakePayload& take_payload) {
  return open_bytes(bytes, [&](schema::Envelope::Reader envelope) -> Status {
    if (envelope.which() != want)
      return fail(Errc::kMismatch,
                  strf("message carries %s (member %u), want %s", member_name(envelope.which()),
                       static_cast<unsigned>(envelope.which()), member_name(want)));
    RETURN_IF_ERROR(take_header(envelope, header));
    return take_payload(envelope);
  });
}

Status check_raw(const std::vector<float>& raw) {
  if (raw.size() > kMaxRawFloats)
    return fail(Errc::kInvalid,
                strf("message: raw vector of %zu floats, limit %u", raw.size(), kMaxRawFloats));
  return {};
}

}  // namespace

MessageBuffer::MessageBuffer(size_t capacity_bytes)
    : words_(std::make_unique<uint64_t[]>(std::clamp(capacity_bytes, size_t{64}, kMaxMessageBytes) /
                                          sizeof(uint64_t))),
      capacity_words_(std::clamp(capacity_bytes, size_t{64}, kMaxMessageBytes) / sizeof(uint64_t)) {
}
MessageBuffer::~MessageBuffer() = default;
MessageBuffer::MessageBuffer(MessageBuffer&&) noexcept = default;
MessageBuffer& MessageBuffer::operator=(MessageBuffer&&) noexcept = default;

// The one way to build: a flat builder on the buffer's words, which must be zero where nothing is
// written.
class MessageScope final {
 public:
  template <class Fill>
  static Status build(MessageBuffer& out, const Header& header, const Fill& fill) {
    std::memset(out.words_.get(), 0, out.dirty_words_ * sizeof(uint64_t));
    out.size_bytes_ = 0;
    out.dirty_words_ = out.capacity_words_;
    try {
      auto* words = reinterpret_cast<capnp::word*>(out.words_.get());
      capnp::FlatMessageBuilder builder(kj::arrayPtr(words + 1, out.capacity_words_ - 1));
      auto envelope = builder.initRoot<schema::Envelope>();
      fill_header(envelope, header);
      fill(envelope);
      const auto segments = builder.getSegmentsForOutput();
      const size_t used = segments[0].size();
      // Segment table: one segment (count - 1 = 0), its size in words.
      out.words_[0] = static_cast<uint64_t>(used) << 32;
      out.size_bytes_ = (used + 1) * sizeof(uint64_t);
      out.dirty_words_ = used + 1;
      return {};
    } catch (const kj::Exception& e) {
      return fail_kj(
          Errc::kInvalid,
          strf("building a message in %zu bytes", out.capacity_words_ * sizeof(uint64_t)).c_str(),
          e);
    }
  }
};

Status build_message(const VehicleMessage& message, MessageBuffer& out) {
  return MessageScope::build(out, message.header, [&](schema::Envelope::Builder envelope) {
    char cut[520];
    auto vehicle = envelope.initVehicle();
    fill_vehicle(vehicle, message.inputs);
    vehicle.setSource(cut_text(message.source, cut));
  });
}

Status build_message(const RoadMessage& message, MessageBuffer& out) {
  RETURN_IF_ERROR(check_raw(message.raw));
  return MessageScope::build(out, message.header, [&](schema::Envelope::Builder envelope) {
    fill_road(envelope.initRoad(), message);
  });
}

Status build_message(const CabinMessage& message, MessageBuffer& out) {
  RETURN_IF_ERROR(check_raw(message.raw));
  return MessageScope::build(out, message.header, [&](schema::Envelope::Builder envelope) {
    fill_cabin(envelope.initCabin(), message);
  });
}

Status build_message(const StateMessage& message, MessageBuffer& out) {
  if (message.models.size() > kMaxModels)
    return fail(Errc::kInvalid,
                strf("state message: %zu models, limit %d", message.models.size(), kMaxModels));
  return MessageScope::build(out, message.header, [&](schema::Envelope::Builder envelope) {
    fill_state(envelope.initModels(), message);
  });
}

Status build_message(const MetricsMessage& message, MessageBuffer& out) {
  if (message.counters.size() > kMaxMetrics || message.latencies.size() > kMaxMetrics)
    return fail(Errc::kInvalid,
                strf("metrics message: %zu counters and %zu latencies, limit %d",
                     message.counters.size(), message.latencies.size(), kMaxMetrics));
  return MessageScope::build(out, message.header, [&](schema::Envelope::Builder envelope) {
    fill_metrics(envelope.initMetrics(), message);
  });
}

Status read_message(std::span<const std::byte> bytes, VehicleMessage& out) {
  return read_payload(bytes, schema::Envelope::VEHICLE, out.header,
                      [&](schema::Envelope::Reader envelope) -> Status {
                        const auto vehicle = envelope.getVehicle();
                        RETURN_IF_ERROR(take_vehicle(vehicle, out.inputs));
                        return take_text("source", vehicle.getSource(), out.source);
                      });
}

Status read_message(std::span<const std::byte> bytes, RoadMessage& out) {
  return read_payload(
      bytes, schema::Envelope::ROAD, out.header,
      [&](schema::Envelope::Reader envelope) { return take_road(envelope.getRoad(), out); });
}

Status read_message(std::span<const std::byte> bytes, CabinMessage& out) {
  return read_payload(
      bytes, schema::Envelope::CABIN, out.header,
      [&](schema::Envelope::Reader envelope) { return take_cabin(envelope.getCabin(), out); });
}

Status read_message(std::span<const std::byte> bytes, StateMessage& out) {
  return read_payload(
      bytes, schema::Envelope::MODELS, out.header,
      [&](schema::Envelope::Reader envelope) { return take_state(envelope.getModels(), out); });
}

Status read_message(std::span<const std::byte> bytes, MetricsMessage& out) {
  return read_payload(
      bytes, schema::Envelope::METRICS, out.header,
      [&](schema::Envelope::Reader envelope) { return take_metrics(envelope.getMetrics(), out); });
}

Result<Topic> read_topic(std::span<const std::byte> bytes, Header& out) {
  std::optional<Topic> topic;
  RETURN_IF_ERROR(open_bytes(bytes, [&](schema::Envelope::Reader envelope) -> Status {
    topic = parse_topic(member_name(envelope.which()));
    return take_header(envelope, out);
  }));
  if (!topic.has_value()) return fail(Errc::kMismatch, "message carries no topic of ours");
  return *topic;
}

}  // namespace modeld::ipc
