// The list of topics (ipc/topics.def) as data.
// Threading: constants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hal/base/status.h"

namespace modeld::ipc {

enum class Topic : uint8_t {
#define MODELD_TOPIC(id, name, member, rate_hz, depth) id,
#include "ipc/topics.def"
#undef MODELD_TOPIC
};

struct TopicInfo {
  Topic topic = Topic::kVehicle;
  const char* name = "";
  int rate_hz = 0;
  int queue_depth = 0;
};

const TopicInfo& topic_info(Topic topic);
std::optional<Topic> parse_topic(std::string_view name);

// RUNTIME_DIR/NAME; refuses what does not fit a socket address.
Result<std::string> topic_path(const std::string& runtime_dir, Topic topic);

}  // namespace modeld::ipc
