#include "daemon/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "hal/base/fs.h"
#include "hal/base/text.h"
#include "hal/base/unique_fd.h"

namespace modeld::daemon {
namespace {

static_assert(AF_CAN == 29 && SOCK_RAW == 3 && SOCK_DGRAM == 2, "the defaults of privilege.h");

// Everything of this vendor is an adapter.
constexpr const char* kCanVendor = "bbaa";
// The same maker's registered vendor number: adapters (application and boot loader) share it with a
// GPU bridge.
constexpr const char* kSharedVendor = "3801";
constexpr const char* kCanProducts[] = {"ddcc", "ddee"};

std::string usb_text(const std::string& device, const char* file) {
  const auto text = read_text(join_path(device, file), 4096);
  return text.ok() ? std::string(trim(*text)) : "";
}

bool is_can_adapter(const std::string& device) {
  const std::string vendor = usb_text(device, "idVendor");
  if (vendor == kCanVendor) return true;
  const std::string product = usb_text(device, "idProduct");
  return vendor == kSharedVendor && std::find(std::begin(kCanProducts), std::end(kCanProducts),
                                              product) != std::end(kCanProducts);
}

// The node of a device folder, "" if it is none (an interface, a host controller's folder).
std::string usb_node(const std::string& dev_dir, const std::string& device) {
  const auto bus = parse_int(usb_text(device, "busnum"));
  const auto number = parse_int(usb_text(device, "devnum"));
  if (!bus.ok() || !number.ok()) return "";
  return dev_dir + strf("/bus/usb/%03lld/%03lld", static_cast<long long>(*bus),
                        static_cast<long long>(*number));
}

std::vector<std::string> usb_nodes(const std::string& dev_dir,
                                   const std::string& usb_dir,
                                   bool can_adapters) {
  std::vector<std::string> out;
  const auto devices = list_dir(usb_dir);
  if (!devices.ok()) return out;  // no USB here
  for (const std::string& name : *devices) {
    const std::string device = join_path(usb_dir, name);
    const std::string node = usb_node(dev_dir, device);
    if (!node.empty() && is_can_adapter(device) == can_adapters) out.push_back(node);
  }
  return out;
}

Probe probe_file(const std::string& path) {
  Probe p{path, false, 0};
  // Write-only is enough to do harm.
  for (const int mode : {O_RDWR, O_WRONLY}) {
    const UniqueFd fd(open(path.c_str(), mode | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    p.opened = fd.is_open();
    if (p.opened) return p;
    p.error = errno;
  }
  return p;
}

Probe probe_socket(const SocketKind& kind) {
  Probe p{
      strf("a socket of family %d (type %d, protocol %d)", kind.family, kind.type, kind.protocol),
      false, 0};
  const UniqueFd fd(socket(kind.family, kind.type | SOCK_CLOEXEC, kind.protocol));
  p.opened = fd.is_open();
  if (!p.opened) p.error = errno;
  return p;
}

}  // namespace

Status give_to_user(const std::string& user, const std::string& dir) {
  if (user.empty() || getuid() != 0) return {};
  const passwd* p = getpwnam(user.c_str());
  if (p == nullptr) return fail(Errc::kNotFound, "privilege: user " + user + " does not exist");
  const UniqueFd fd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.is_open() || fchown(fd.get(), p->pw_uid, p->pw_gid) != 0)
    return fail_errno(Errc::kIo, "privilege: giving " + dir + " to " + user, errno);
  return {};
}

Status drop_to_user(const std::string& user) {
  if (user.empty() || getuid() != 0) return {};
  errno = 0;
  const passwd* p = getpwnam(user.c_str());
  if (p == nullptr) return fail(Errc::kNotFound, "privilege: user " + user + " does not exist");
  if (initgroups(user.c_str(), p->pw_gid) != 0 || setgid(p->pw_gid) != 0 ||
      setuid(p->pw_uid) != 0) {
    return fail_errno(Errc::kIo, "privilege: cannot become " + user, errno);
  }
  if (p->pw_uid != 0 && setuid(0) == 0)
    return fail(Errc::kInternal, "privilege: could become root again after the drop to " + user);
  return {};
}

std::vector<std::string> usb_can_nodes(const std::string& dev_dir, const std::string& usb_dir) {
  return usb_nodes(dev_dir, usb_dir, true);
}

std::vector<std::string> usb_other_nodes(const std::string& dev_dir, const std::string& usb_dir) {
  return usb_nodes(dev_dir, usb_dir, false);
}

std::vector<Probe> run_probes(const ActuatorProbes& probes) {
  std::vector<Probe> out;
  for (const std::string& queue : probes.queues) out.push_back(probe_file(queue));
  for (const SocketKind& kind : probes.sockets) out.push_back(probe_socket(kind));
  for (const std::string& node : usb_can_nodes(probes.dev_dir, probes.usb_dir))
    out.push_back(probe_file(node));
  const auto nodes = list_dir(probes.dev_dir);
  if (!nodes.ok()) return out;
  for (const std::string& name : *nodes) {
    if (name.rfind("spidev", 0) == 0) out.push_back(probe_file(join_path(probes.dev_dir, name)));
  }
  return out;
}

Status probe_actuators(const ActuatorProbes& probes) {
  for (const Probe& p : run_probes(probes)) {
    if (p.opened) return fail(Errc::kBusy, "privilege: " + p.what + " can be opened");
  }
  return {};
}

}  // namespace modeld::daemon
