#include "ipc/state_json.h"

namespace modeld::ipc {
namespace {

TEST(StateJson, SaysStateReasonAndAge) {
  StateMessage message;
  message.models.resize(1);
  message.models[0].name = "road";
  message.models[0].state = ModelState::kUnavailable;
  message.models[0].reason = Reason::kTimeout;
  message.models[0].text = "no answer in 150 ms";
  message.models[0].since_ns = 1'000'000'000;
  message.camera_connected = true;
  const Json json = state_to_json(message, 3'500'000'000);
  EXPECT_TRUE(json.find("ok")->bool_or(false));
  EXPECT_TRUE(json.find("camera")->find("connected")->bool_or(false));
  const Json& model = json.find("models")->items().at(0);
  EXPECT_EQ(model.find("state")->string_or(""), "UNAVAILABLE");
  EXPECT_EQ(model.find("reason")->string_or(""), "timeout");
  EXPECT_EQ(model.find("since_s")->double_or(0), 2.5);
  EXPECT_EQ(*Json::parse(json.dump()), json);
}

}  // namespace
}  // namespace modeld::ipc
