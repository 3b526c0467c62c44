// The dependency rule as a test: who may include whom, where each outside library may appear, and
// the size of files. The table is the house's; the longest prefix wins, for the including and for
// the included file.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

namespace modeld {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string prefix;
  std::vector<std::string> may;  // prefixes, besides itself
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"hal/base", {}},
      {"hal/backends", {"hal", "hal/base", "hal/cpu", "hal/sim"}},
      {"hal/cpu", {"hal", "hal/base"}},
      {"hal/sim", {"hal", "hal/base"}},
      {"hal", {"hal/base"}},
      {"runtime/ir", {"hal/base"}},
      {"runtime/pass", {"runtime/ir", "hal/base"}},
      {"runtime/tensor", {"runtime/ir", "runtime/pass", "hal/base"}},
      {"runtime/schedule", {"runtime/ir", "runtime/pass", "hal/base"}},
      {"runtime/codegen", {"runtime/ir", "runtime/pass", "hal/base", "hal/target.h"}},
      {"runtime/render", {"runtime/ir", "hal/base", "hal/target.h"}},
      {"runtime/isa", {"runtime/ir", "runtime/codegen", "hal/base", "hal/target.h"}},
      {"runtime/compile", {"hal/base", "hal/target.h"}},
      // The parts of exec that call the compiler; the rest of exec is what a vehicle links.
      {"runtime/exec/compile_plan", {"runtime", "hal", "hal/base", "hal/backends"}},
      {"runtime/exec/lower_and_compile", {"runtime", "hal", "hal/base", "hal/backends"}},
      {"runtime/exec/prepare", {"runtime", "hal", "hal/base", "hal/backends"}},
      {"runtime/exec/retune", {"runtime", "hal", "hal/base", "hal/backends"}},
      {"runtime/exec/beam", {"runtime", "hal", "hal/base", "hal/backends"}},
      {"runtime/exec/realize", {"runtime", "hal", "hal/base", "hal/backends"}},
      {"runtime/exec/jit", {"runtime", "hal", "hal/base", "hal/backends"}},
      {"runtime/exec/session", {"runtime", "hal", "hal/base", "hal/backends"}},
      {"runtime/exec", {"runtime/ir", "hal", "hal/base"}},
      {"runtime/tools", {"runtime", "hal", "hal/base"}},
      {"models/onnx", {"runtime/ir", "runtime/tensor", "hal/base"}},
      {"models/reference", {"hal/base"}},
      {"models/warp_graph", {"runtime/ir", "runtime/tensor", "hal/base"}},
      {"models/common", {"models", "runtime/exec", "models/bundle", "hal", "hal/base"}},
      {"models/bundle", {"runtime/exec", "hal", "hal/base"}},
      {"models/road",
       {"models", "models/common", "models/bundle", "runtime/exec", "hal", "hal/base"}},
      {"models/cabin",
       {"models", "models/common", "models/bundle", "runtime/exec", "hal", "hal/base"}},
      {"models/tools",
       {"models", "runtime", "hal", "hal/base", "hal/backends",
        // Replaying a recording needs its reader and the source that made its pixels.
        "ipc/recording", "ipc/flight", "ipc/model_state", "ipc/synth_scene", "ipc/vehicle_synth",
        "ipc/y4m", "ipc/frame_source", "ipc/frame.h", "ipc/nv12"}},
      {"models",
       {"models/common", "models/road", "models/cabin", "models/bundle", "runtime/exec", "hal",
        "hal/base"}},
      {"ipc/consumer", {"ipc", "hal/base"}},
      {"ipc/tools", {"ipc", "ipc/consumer", "hal/base"}},
      {"ipc", {"hal/base"}},
      {"daemon",
       {"models", "models/common", "models/bundle", "models/road", "models/cabin", "runtime/exec",
        "runtime/exec/compile_plan", "runtime/exec/prepare", "ipc", "hal", "hal/base",
        "hal/backends"}},
      {"selftest",
       {"hal", "hal/base", "hal/backends", "hal/cpu", "hal/sim", "runtime", "models", "ipc",
        "ipc/consumer", "ipc/tools", "daemon"}},
  };
  return rows;
}

bool under(const std::string& path, const std::string& prefix) {
  if (path.compare(0, prefix.size(), prefix) != 0) return false;
  if (path.size() == prefix.size()) return true;
  const char next = path[prefix.size()];
  return next == '/' || next == '.' || next == '_';
}

const Row* row_of(const std::string& path) {
  const Row* best = nullptr;
  for (const Row& r : table()) {
    if (under(path, r.prefix) && (best == nullptr || r.prefix.size() > best->prefix.size()))
      best = &r;
  }
  return best;
}

bool is_test(const std::string& path) {
  return path.find("_test.") != std::string::npos || under(path, "selftest") ||
         path.find("/test_") != std::string::npos ||
         path.find("/sample_") != std::string::npos;  // what tests of several folders build on
}

// An entry "runtime" or "models" grants the whole tree only where the table says so on purpose.
bool grants(const std::string& entry, const std::string& included) {
  if (entry == "runtime" || entry.find('.') != std::string::npos)
    return under(included, entry) || included == entry;
  if (entry == "models") return under(included, "models");
  const Row* target = row_of(included);
  if (target != nullptr && target->prefix == entry) return true;
  // A prefix finer than a row of the table (one file).
  return under(included, entry) && (target == nullptr || target->prefix.size() <= entry.size());
}

// Tests (and what they build on) may also run what they made, and compare with the plain version of
// it.
const std::vector<std::string>& test_grants() {
  static const std::vector<std::string> grants = {"selftest/testing", "hal", "hal/backends",
                                                  "models/common"};
  return grants;
}

bool allowed(const std::string& from, const std::string& included) {
  const Row* self = row_of(from);
  const Row* target = row_of(included);
  if (self == nullptr || target == nullptr) return false;
  if (self == target) return true;
  if (is_test(from) &&
      std::any_of(test_grants().begin(), test_grants().end(), [&](const std::string& e) {
        return target->prefix == e || under(included, e);
      })) {
    return true;
  }
  return std::any_of(self->may.begin(), self->may.end(),
                     [&](const std::string& e) { return grants(e, included); });
}

struct Include {
  std::string file;
  size_t line;
  std::string path;
  bool quoted;
};

fs::path root() {
  // The test runs from the build folder; sources are where this file was compiled from.
  return fs::path(MODELD_SOURCE_ROOT);
}

std::vector<std::string> sources() {
  std::vector<std::string> out;
  for (const char* top : {"daemon", "runtime", "ipc", "models", "hal", "selftest"}) {
    for (const auto& e : fs::recursive_directory_iterator(root() / top)) {
      const std::string ext = e.path().extension().string();
      if (e.is_regular_file() && (ext == ".h" || ext == ".cc" || ext == ".def"))
        out.push_back(fs::relative(e.path(), root()).string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(root() / file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<Include> includes_of(const std::string& file) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> out;
  const std::vector<std::string> lines = lines_of(file);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch m;
    if (std::regex_search(lines[i], m, kInclude)) out.push_back({file, i + 1, m[2], m[1] == "\""});
  }
  return out;
}

std::string at(const Include& i) {
  return i.file + ":" + std::to_string(i.line) + " includes " + i.path;
}

TEST(Layering, EveryIncludeIsAllowed) {
  for (const std::string& file : sources()) {
    for (const Include& i : includes_of(file)) {
      if (!i.quoted) continue;
      EXPECT_EQ(i.path.find("../"), std::string::npos) << at(i);
      EXPECT_NE(i.path.find('/'), std::string::npos) << at(i) << ": give the full path";
      EXPECT_TRUE(allowed(file, i.path)) << at(i) << ": not in the table";
    }
  }
}

TEST(Layering, TheTableRefusesWhatItMust) {
  EXPECT_FALSE(allowed("hal/cpu/cpu_queue.cc", "hal/sim/null_device.h"));
  EXPECT_FALSE(allowed("hal/base/log.cc", "hal/device.h"));
  EXPECT_FALSE(allowed("daemon/frame_loop.cc", "runtime/codegen/lower.h"));
  EXPECT_FALSE(allowed("daemon/frame_loop.cc", "selftest/testing/fake_clock.h"));
  EXPECT_FALSE(allowed("runtime/exec/plan.cc", "runtime/compile/compiler.h"));
  EXPECT_FALSE(allowed("ipc/message.cc", "models/road/road_outputs.h"));
  EXPECT_TRUE(allowed("daemon/frame_loop.cc", "models/road/road_model.h"));
  EXPECT_TRUE(allowed("runtime/exec/compile_plan.cc", "runtime/compile/compiler.h"));
}

TEST(Layering, HeadersHaveNoCycles) {
  std::map<std::string, std::vector<std::string>> graph;
  for (const std::string& file : sources()) {
    for (const Include& i : includes_of(file)) {
      if (i.quoted && file.ends_with(".h")) graph[file].push_back(i.path);
    }
  }
  std::map<std::string, int> state;
  std::function<void(const std::string&)> visit = [&](const std::string& f) {
    state[f] = 1;
    for (const std::string& next : graph[f]) {
      EXPECT_NE(state[next], 1) << "include cycle through " << f << " and " << next;
      if (state[next] == 0) visit(next);
    }
    state[f] = 2;
  };
  std::vector<std::string> all;
  for (const auto& [f, unused] : graph) all.push_back(f);
  for (const std::string& f : all) {
    if (state[f] == 0) visit(f);
  }
}

struct Place {
  std::string header;              // prefix of the header's name
  std::vector<std::string> where;  // files or folders it may stand in
};

TEST(Layering, OutsideLibrariesStayInTheirRooms) {
  const std::vector<Place> places = {
      {"zmq", {"ipc"}},
      {"capnp/", {"ipc", "models/bundle"}},
      {"kj/", {"ipc", "models/bundle"}},
      {"onnx/", {"models/onnx", "models/reference"}},
      {"google/protobuf", {"models/onnx", "models/reference"}},
      {"toml++/", {"daemon/config"}},
      {"nlohmann/", {"hal/base/json"}},
      {"spdlog/", {"hal/base/log"}},
      {"sodium", {"hal/base", "models/bundle", "models/tools/report/packed"}},
      {"zlib", {"models/tools/report/packed"}},
      {"xxhash", {"hal/base"}},
      {"systemd/", {"daemon", "hal/base/log", "selftest/systemd"}},
      {"seccomp", {"daemon"}},
      {"CLI/",
       {"models/tools", "ipc/tools", "daemon/main", "daemon/unavailable_main", "selftest",
        "runtime/tools"}},
      {"CL/", {"hal/opencl", "hal/dynlib"}},
  };
  for (const std::string& file : sources()) {
    for (const Include& i : includes_of(file)) {
      for (const Place& p : places) {
        if (i.quoted || i.path.compare(0, p.header.size(), p.header) != 0) continue;
        const bool ok = std::any_of(p.where.begin(), p.where.end(),
                                    [&](const std::string& w) { return under(file, w); });
        EXPECT_TRUE(ok) << at(i);
      }
    }
  }
}

TEST(Layering, EnvironmentAndExceptionsStayInTheirRooms) {
  const std::regex env(R"(\bgetenv\s*\()");
  const std::regex thrown(R"((^|[^\w"])(throw\b|catch\s*\())");
  // Each is the one file (or program) that includes a library which throws.
  const std::vector<std::string> catchers = {"ipc/message",
                                             "models/bundle/manifest",
                                             "daemon/config",
                                             "daemon/main",
                                             "daemon/unavailable_main",
                                             "hal/base/json",
                                             "hal/base/log",
                                             "models/onnx",
                                             "models/reference",
                                             "models/tools",
                                             "ipc/tools",
                                             "runtime/tools",
                                             "selftest"};
  for (const std::string& file : sources()) {
    const std::vector<std::string> lines = lines_of(file);
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string code = lines[i].substr(0, lines[i].find("//"));
      const std::string where = file + ":" + std::to_string(i + 1);
      if (std::regex_search(code, env)) {
        EXPECT_TRUE(file == "hal/base/env.cc" || file == "selftest/layering_test.cc") << where;
      }
      const bool may_catch = std::any_of(catchers.begin(), catchers.end(),
                                         [&](const std::string& c) { return under(file, c); });
      EXPECT_TRUE(!std::regex_search(code, thrown) || may_catch || is_test(file))
          << where << ": " << code;
    }
  }
}

TEST(Layering, FilesStayReadable) {
  // file -> why it may be longer
  const std::map<std::string, std::string> longer = {};
  for (const std::string& file : sources()) {
    const size_t limit = file.ends_with(".h") ? 300 : 800;
    const size_t n = lines_of(file).size();
    EXPECT_TRUE(n <= limit || longer.contains(file))
        << file << " has " << n << " lines, limit " << limit;
  }
}

}  // namespace
}  // namespace modeld
