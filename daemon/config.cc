#include "daemon/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <initializer_list>

#include "hal/base/fs.h"
#include "hal/base/text.h"

namespace modeld::daemon {
namespace {

constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr size_t kMaxShown = 200;

// A text from the file as far as a line of error can carry it.
std::string shown(const std::string& text) {
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

// Reads one table; the first thing wrong with it is kept.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string file, std::string where)
      : table_(table), file_(std::move(file)), where_(std::move(where)) {}

  void text(const char* key, std::string& out) {
    if (const toml::node* n = take(key)) {
      if (n->is_string()) {
        out = n->as_string()->get();
      } else {
        wrong(*n, key, "must be text");
      }
    }
  }
  void flag(const char* key, bool& out) {
    if (const toml::node* n = take(key)) {
      if (n->is_boolean()) {
        out = n->as_boolean()->get();
      } else {
        wrong(*n, key, "must be true or false");
      }
    }
  }
  void integer(const char* key, int64_t& out, int64_t min, int64_t max) {
    const toml::node* n = take(key);
    if (n == nullptr) return;
    if (!n->is_integer()) return wrong(*n, key, "must be a whole number");
    const int64_t v = n->as_integer()->get();
    if (v < min || v > max) {
      return wrong(*n, key,
                   strf("must lie in [%lld, %lld]", static_cast<long long>(min),
                        static_cast<long long>(max)));
    }
    out = v;
  }
  void one_of(const char* key, std::string& out, std::initializer_list<const char*> words) {
    std::string v = out;
    const toml::node* n = table_.get(key);
    text(key, v);
    const bool known =
        std::any_of(words.begin(), words.end(), [&](const char* w) { return v == w; });
    if (n != nullptr && n->is_string() && !known)
      return wrong(*n, key,
                   "must be " + join(std::vector<std::string>(words.begin(), words.end()), " or "));
    out = v;
  }
  void cpus(const char* key, std::vector<int>& out) {
    const toml::node* n = take(key);
    if (n == nullptr) return;
    if (!n->is_array()) return wrong(*n, key, "must be a list of CPU numbers");
    out.clear();
    for (const toml::node& e : *n->as_array()) {
      if (!e.is_integer() || e.as_integer()->get() < 0 || e.as_integer()->get() > 1023) {
        return wrong(e, key, "must be CPU numbers in [0, 1023]");
      }
      out.push_back(static_cast<int>(e.as_integer()->get()));
    }
  }
  const toml::table* table(const char* key) {
    const toml::node* n = take(key);
    if (n != nullptr && !n->is_table()) wrong(*n, key, "must be a table");
    return n != nullptr ? n->as_table() : nullptr;
  }
  // What only shows once several keys are read: at the line of `key`, or of its table when it is
  // not there.
  void refuse(const char* key, const std::string& what) {
    const toml::node* n = table_.get(key);
    wrong(n != nullptr ? *n : table_, key, what);
  }
  // After all keys were asked for: anything left is unknown.
  Status finish() {
    for (const auto& [key, node] : table_) {
      const std::string k(key.str());
      if (std::find(known_.begin(), known_.end(), k) == known_.end())
        wrong(node, k.c_str(), "is not a key this program knows (" + join(known_, ", ") + ")");
    }
    if (!error_.empty()) return fail(Errc::kInvalid, error_);
    return {};
  }

 private:
  const toml::node* take(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }
  std::string full(const char* key) const { return where_.empty() ? key : where_ + "." + key; }
  void wrong(const toml::node& n, const char* key, const std::string& what) {
    if (!error_.empty()) return;
    std::string seen;
    if (n.is_string()) seen = ", is \"" + shown(n.as_string()->get()) + "\"";
    if (n.is_integer()) seen = ", is " + std::to_string(n.as_integer()->get());
    if (n.is_floating_point()) seen = ", is " + std::to_string(n.as_floating_point()->get());
    if (n.is_boolean()) seen = n.as_boolean()->get() ? ", is true" : ", is false";
    error_ =
        strf("%s:%u: key '%s' ", file_.c_str(), n.source().begin.line, shown(full(key)).c_str()) +
        what + seen;
  }

  const toml::table& table_;
  std::string file_;
  std::string where_;
  std::vector<std::string> known_;
  std::string error_;
};

Result<ModelConfig> read_model(const toml::table& t,
                               const std::string& file,
                               const std::string& name) {
  ModelConfig m;
  m.name = name;
  m.prepare = name == "cabin" ? "never" : "missing";
  TableReader r(t, file, "model." + name);
  r.text("bundle", m.bundle);
  r.text("device", m.device);
  r.text("fallback_bundle", m.fallback_bundle);
  r.text("fallback_device", m.fallback_device);
  r.one_of("prepare", m.prepare, {"missing", "never"});
  if (is_slow_simulator(m.device)) m.timeout_ms = kSimTimeoutMs;
  r.integer("late_ms", m.late_ms, 1, 60000);
  r.integer("timeout_ms", m.timeout_ms, 1, 600000);
  r.integer("load_s", m.load_s, 1, 3600);
  r.cpus("cpus", m.cpus);
  r.integer("priority", m.priority, 0, 99);
  RETURN_IF_ERROR(r.finish());
  if (m.bundle.empty()) r.refuse("bundle", t.contains("bundle") ? "is empty" : "is missing");
  if (m.late_ms > m.timeout_ms) {
    // At least one of the two is written: the defaults are in order.
    const bool is_late_written = t.contains("late_ms");
    r.refuse(is_late_written ? "late_ms" : "timeout_ms",
             is_late_written
                 ? strf("must not be above timeout_ms %lld", static_cast<long long>(m.timeout_ms))
                 : strf("must not be below late_ms %lld", static_cast<long long>(m.late_ms)));
  }
  RETURN_IF_ERROR(r.finish());
  return m;
}

Status read_camera(const toml::table& t, const std::string& file, Config& c) {
  TableReader r(t, file, "camera");
  r.text("socket", c.camera_socket);
  return r.finish();
}

Status read_trust(const toml::table& t, const std::string& file, Config& c) {
  TableReader r(t, file, "trust");
  r.text("keys", c.keys_dir);
  r.flag("require_signature", c.require_signature);
  return r.finish();
}

Status read_publish(const toml::table& t, const std::string& file, Config& c) {
  TableReader r(t, file, "publish");
  r.flag("raw", c.publish_raw);
  return r.finish();
}

Status read_flight(const toml::table& t, const std::string& file, Config& c) {
  TableReader r(t, file, "flight");
  r.text("dir", c.flight_dir);
  r.integer("limit_mb", c.flight_limit_mb, 0, 100'000);
  r.integer("runs", c.flight_runs, 1, 1000);
  return r.finish();
}

Status read_models(const toml::table& t, const std::string& file, Config& c) {
  TableReader r(t, file, "model");
  const toml::table* road = r.table("road");
  const toml::table* cabin = r.table("cabin");
  RETURN_IF_ERROR(r.finish());
  for (const auto& [table, name] : {std::pair{road, "road"}, std::pair{cabin, "cabin"}}) {
    if (table == nullptr) continue;
    ASSIGN_OR_RETURN(ModelConfig m, read_model(*table, file, name));
    c.models.push_back(std::move(m));
  }
  return {};
}

Result<Config> read_root(const toml::table& root, const std::string& file) {
  Config c;
  c.path = file;
  TableReader r(root, file, "");
  r.text("runtime_dir", c.runtime_dir);
  r.text("user", c.user);
  using Reader = Status (*)(const toml::table&, const std::string&, Config&);
  const std::pair<const toml::table*, Reader> tables[] = {{r.table("camera"), read_camera},
                                                          {r.table("trust"), read_trust},
                                                          {r.table("publish"), read_publish},
                                                          {r.table("flight"), read_flight},
                                                          {r.table("model"), read_models}};
  RETURN_IF_ERROR(r.finish());
  for (const auto& [table, read] : tables) {
    if (table != nullptr) RETURN_IF_ERROR(read(*table, file, c));
  }
  if (c.models.empty()) {
    return fail(Errc::kInvalid,
                file + ": key 'model.road' or 'model.cabin' is missing: no model to run");
  }
  return c;
}

}  // namespace

bool is_slow_simulator(const std::string& device) {
  const size_t colon = device.find(':');
  if (colon == std::string::npos) return false;
  const std::string_view rest = std::string_view(device).substr(colon + 1);
  return rest == "sim" || rest.starts_with("sim:");
}

Result<Config> parse_config(const std::string& text, const std::string& name) {
  try {
    const toml::table root = toml::parse(text, name);
    return read_root(root, name);
  } catch (const toml::parse_error& e) {
    return fail(Errc::kInvalid, strf("%s:%u: not TOML: %s", name.c_str(), e.source().begin.line,
                                     shown(std::string(e.description())).c_str()));
  }
}

Result<Config> load_config(const std::string& path) {
  auto text = read_text(path, kMaxConfigBytes);
  if (!text.ok()) return fail(std::move(text).error().with("config"));
  return parse_config(*text, path);
}

}  // namespace modeld::daemon
