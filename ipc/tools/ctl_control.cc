// modelctl status, metrics, trace: one question, one answer.
#include <cstdio>

#include "hal/base/fs.h"
#include "hal/base/json.h"

#include "ipc/control.h"
#include "ipc/poller.h"
#include "ipc/subscriber.h"
#include "ipc/text_server.h"
#include "ipc/tools/ctl_commands.h"
#include "ipc/tools/stop_signal.h"

namespace modeld::ipc {
namespace {

constexpr int64_t kControlTimeoutMs = 3000;
// Metrics come once a second.
constexpr int64_t kMetricsTimeoutMs = 3000;

Error is_it_running(Error error) {
  error.what += "; is modeld running?";
  return error;
}

// Asks the daemon; a reply {"ok":false,"error":..} is an error with that text.
Result<std::string> ask(const std::string& dir, const char* command, Json& parsed) {
  auto reply = control_request(dir, strf("{\"command\":\"%s\"}", command),
                               Deadline::in_ms(kControlTimeoutMs));
  if (!reply.ok()) return fail(is_it_running(std::move(reply).error()));
  ASSIGN_OR_RETURN(parsed, Json::parse(*reply));
  const Json* const ok = parsed.find("ok");
  if (ok != nullptr && !ok->bool_or(true)) {
    const Json* const error = parsed.find("error");
    return fail(Errc::kInvalid,
                strf("modeld refused %s: %s", command,
                     error == nullptr ? "no reason" : error->string_or("").c_str()));
  }
  return reply;
}

std::string text_of(const Json& object, const char* key) {
  const Json* const value = object.find(key);
  return value == nullptr ? "" : value->string_or("");
}

int64_t number_of(const Json& object, const char* key) {
  const Json* const value = object.find(key);
  return value == nullptr ? 0 : value->int_or(0);
}

void print_model(const Json& model) {
  const std::string reason = text_of(model, "reason");
  const std::string state =
      text_of(model, "state") + (reason.empty() || reason == "none" ? "" : "(" + reason + ")");
  const Json* const since = model.find("since_s");
  std::printf(
      "%-6s %-28s since %.1f s  device %s  accepted %lld  late %lld  dropped %lld  unavailable "
      "%lld\n",
      text_of(model, "name").c_str(), state.c_str(), since == nullptr ? 0.0 : since->double_or(0),
      text_of(model, "device").c_str(), static_cast<long long>(number_of(model, "frames_accepted")),
      static_cast<long long>(number_of(model, "frames_late")),
      static_cast<long long>(number_of(model, "frames_dropped")),
      static_cast<long long>(number_of(model, "unavailable_entries")));
  if (!text_of(model, "text").empty()) std::printf("       %s\n", text_of(model, "text").c_str());
}

Json metrics_to_json(const MetricsMessage& message) {
  Json counters = Json::object();
  for (const CounterValue& counter : message.counters) counters.set(counter.name, counter.value);
  Json latencies = Json::object();
  for (const LatencyValue& latency : message.latencies) {
    Json one = Json::object();
    one.set("count", latency.count);
    one.set("p50_ns", latency.p50_ns);
    one.set("p90_ns", latency.p90_ns);
    one.set("p99_ns", latency.p99_ns);
    one.set("max_ns", latency.max_ns);
    latencies.set(latency.name, std::move(one));
  }
  Json out = Json::object();
  out.set("counters", std::move(counters));
  out.set("latencies", std::move(latencies));
  return out;
}

Result<MetricsMessage> wait_for_metrics(const std::string& dir) {
  ZmqContext context;
  ASSIGN_OR_RETURN(const auto receiver, connect_topic(context, dir, Topic::kMetrics));
  Poller poller;
  poller.add(receiver->poll_fd());
  const Deadline deadline = Deadline::in_ms(kMetricsTimeoutMs);
  MetricsMessage scratch;
  MetricsMessage out;
  while (!deadline.has_passed() && !stop_requested()) {
    ASSIGN_OR_RETURN(const int seen, for_each_message(*receiver, scratch,
                                                      [&](const MetricsMessage& m) { out = m; }));
    if (seen > 0) return out;
    ASSIGN_OR_RETURN([[maybe_unused]] const int ready, poller.wait_until(deadline));
  }
  return fail(Errc::kTimeout,
              strf("no metrics message on %s/metrics in %lld ms; is modeld running?", dir.c_str(),
                   static_cast<long long>(kMetricsTimeoutMs)));
}

}  // namespace

int ctl_fail(const Error& error) {
  std::fprintf(stderr, "modelctl: %s\n", error.what.c_str());
  return 1;
}

int cmd_status(const CtlOptions& options) {
  Json status;
  const auto reply = ask(options.dir, "status", status);
  if (!reply.ok()) return ctl_fail(reply.error());
  if (options.json) {
    std::printf("%s\n", status.dump().c_str());
    return 0;
  }
  const Json* const camera = status.find("camera");
  const Json* const connected = camera == nullptr ? nullptr : camera->find("connected");
  std::printf("modeld %s, pid %lld, camera %s %s\n", text_of(status, "version").c_str(),
              static_cast<long long>(number_of(status, "pid")),
              connected != nullptr && connected->bool_or(false) ? "connected" : "not connected",
              camera == nullptr ? "" : text_of(*camera, "source").c_str());
  if (const Json* const models = status.find("models")) {
    for (const Json& model : models->items()) print_model(model);
  }
  return 0;
}

// Text: what a scraper gets, as of now. JSON: the topic's last message, with quantiles.
int cmd_metrics(const CtlOptions& options) {
  if (!options.json) {
    const auto text =
        read_text_socket(options.dir, kMetricsSocket, Deadline::in_ms(kControlTimeoutMs));
    if (!text.ok()) return ctl_fail(is_it_running(Error(text.error())));
    std::fwrite(text->data(), 1, text->size(), stdout);
    return 0;
  }
  const auto metrics = wait_for_metrics(options.dir);
  if (!metrics.ok()) return ctl_fail(metrics.error());
  std::printf("%s\n", metrics_to_json(*metrics).dump().c_str());
  return 0;
}

int cmd_trace(const CtlOptions& options) {
  Json reply;
  const auto text = ask(options.dir, "trace", reply);
  if (!text.ok()) return ctl_fail(text.error());
  // The trace itself, or wrapped as {"ok":true,"trace":{..}}.
  const Json* const wrapped = reply.find("trace");
  const Json& trace = wrapped == nullptr ? reply : *wrapped;
  const Json* const events = trace.find("traceEvents");
  if (events == nullptr)
    return ctl_fail(
        Error{.code = Errc::kProtocol, .what = "modeld's reply to trace has no traceEvents"});
  const Status written = write_text_atomic(options.file, trace.dump());
  if (!written.ok()) return ctl_fail(written.error());
  if (options.json) {
    Json out = Json::object();
    out.set("file", options.file);
    out.set("events", events->size());
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("%zu events written to %s (open it in Perfetto)\n", events->size(),
                options.file.c_str());
  }
  return 0;
}

}  // namespace modeld::ipc
