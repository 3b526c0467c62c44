#include "daemon/worker_rights.h"

#include <iterator>

#include "hal/base/env.h"
#include "hal/base/fs.h"
#include "hal/base/text.h"

#include "daemon/config.h"
#include "daemon/privilege.h"

namespace modeld::daemon {
namespace {

constexpr const char* kEverybodysNodes[] = {"null", "zero", "full", "random", "urandom"};
// Graphics cores as an OpenCL driver finds them, and where Android-like kernels give memory for
// them.
constexpr const char* kGraphicsNodes[] = {"dri", "kgsl",     "mali",    "nvidia", "kfd",
                                          "ion", "dma_heap", "udmabuf", "adsprpc"};

bool begins_with(const std::string& text, std::string_view start) {
  return text.compare(0, start.size(), start) == 0;
}

std::vector<std::string> graphics_nodes(const std::string& dev_dir) {
  std::vector<std::string> out;
  const auto nodes = list_dir(dev_dir);
  if (!nodes.ok()) return out;
  for (const std::string& name : *nodes) {
    for (const char* start : kGraphicsNodes) {
      if (begins_with(name, start)) out.push_back(join_path(dev_dir, name));
    }
  }
  return out;
}

}  // namespace

bool has_driver(const std::string& device_uri) {
  const std::string scheme = device_uri.substr(0, device_uri.find(':'));
  return scheme != "cpu" && scheme != "null" && !is_slow_simulator(device_uri);
}

std::vector<std::string> device_nodes(const std::string& device_uri,
                                      const std::string& dev_dir,
                                      const std::string& usb_dir) {
  std::vector<std::string> out;
  for (const char* name : kEverybodysNodes) out.push_back(join_path(dev_dir, name));
  if (!has_driver(device_uri)) return out;
  const std::string scheme = device_uri.substr(0, device_uri.find(':'));
  std::vector<std::string> own =
      scheme == "amd" ? usb_other_nodes(dev_dir, usb_dir) : graphics_nodes(dev_dir);
  // "qcom:/dev/kgsl-3d0" names its node.
  const size_t slash = device_uri.find('/');
  if (slash != std::string::npos) own.push_back(device_uri.substr(slash));
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

FileRights worker_rights(const WorkerSetup& setup) {
  FileRights r;
  // The bundle by itself as well: its name may be a link to elsewhere.
  r.read = {dir_name(setup.bundle), setup.bundle, setup.keys_dir, "/sys", "/proc", "/etc"};
  r.read_exec = {"/usr", "/lib", "/lib64", "/bin"};
  r.devices = device_nodes(setup.device);
  if (setup.prepare == "missing") {
    // Compiling what a bundle lacks needs the cache and room for the compiler's files.
    (void)!make_dirs(cache_dir()).ok();
    r.read_write = {cache_dir(), temp_root()};
  }
  return r;
}

}  // namespace modeld::daemon
