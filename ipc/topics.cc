#include "ipc/topics.h"

#include <sys/un.h>

#include <array>

namespace modeld::ipc {
namespace {

constexpr std::array kTopics = {
#define MODELD_TOPIC(id, name, member, rate_hz, depth) TopicInfo{Topic::id, name, rate_hz, depth},
#include "ipc/topics.def"
#undef MODELD_TOPIC
};

}  // namespace

const TopicInfo& topic_info(Topic topic) {
  return kTopics.at(static_cast<size_t>(topic));
}

std::optional<Topic> parse_topic(std::string_view name) {
  for (const TopicInfo& info : kTopics) {
    if (name == info.name) return info.topic;
  }
  return std::nullopt;
}

Result<std::string> topic_path(const std::string& runtime_dir, Topic topic) {
  std::string path = runtime_dir + "/" + topic_info(topic).name;
  constexpr size_t kLimit = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kLimit)
    return fail(Errc::kInvalid, strf("topic socket %s: path has %zu bytes, limit %zu", path.c_str(),
                                     path.size(), kLimit));
  return path;
}

}  // namespace modeld::ipc
