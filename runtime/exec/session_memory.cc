#include "runtime/exec/session_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "hal/backends.h"
#include "hal/base/unique_fd.h"

#include "runtime/ir/derived.h"

namespace modeld::exec {

using ir::Node;
using ir::Op;

namespace {

constexpr int64_t kTransferLimitMs = 120'000;

// "CPU:1" -> "cpu:1"; memory of the host program is any CPU's.
Result<std::string> uri_of(const std::string& name) {
  const std::string kind = name.substr(0, name.find(':'));
  if (kind == "CPU") return name == "CPU" ? "cpu" : "cpu" + name.substr(3);
  if (kind == "DISK" || kind == "HOST") return std::string("cpu");
  return fail(Errc::kUnsupported, strf("session: no device '%s' here, only CPUs", name.c_str()));
}

// The BUFFER whose memory this is, or a part of.
const Node* owner_of(const Node* node) {
  return node->op == Op::kMSelect ? node->src(0) : node;
}

}  // namespace

Result<hal::Device*> SessionMemory::device(const std::string& name) {
  const bool is_file = name.substr(0, name.find(':')) == "DISK";
  const std::string key = is_file ? "HOST" : name;
  auto at = devices_.find(key);
  if (at == devices_.end()) {
    ASSIGN_OR_RETURN(const std::string uri, uri_of(key));
    ASSIGN_OR_RETURN(std::unique_ptr<hal::Device> opened, hal::open_device(uri, config_));
    at = devices_.emplace(key, std::move(opened)).first;
  }
  return at->second.get();
}

Result<hal::Buffer> SessionMemory::allocate(const std::string& name, uint64_t size_bytes) {
  ASSIGN_OR_RETURN(hal::Device* const on, device(name));
  hal::BufferDesc desc;
  desc.size_bytes = std::max<uint64_t>(size_bytes, 1);
  desc.flags = hal::Mem::kZero;  // whatever is read unwritten is the same every time
  ++allocations_;
  return on->allocator().alloc(desc);
}

// The file grows to what the buffer needs; it never shrinks.
Result<hal::Buffer> SessionMemory::map_file(const std::string& path, uint64_t size_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (fd.get() < 0) return fail_errno(Errc::kIo, "DISK: open " + path, errno);
  const off_t have = lseek(fd.get(), 0, SEEK_END);
  if (have < 0) return fail_errno(Errc::kIo, "DISK: size of " + path, errno);
  const auto want = static_cast<off_t>(std::max<uint64_t>(size_bytes, 1));
  if (have < want && ftruncate(fd.get(), want) != 0)
    return fail_errno(Errc::kIo, "DISK: grow " + path, errno);
  ASSIGN_OR_RETURN(hal::Device* const host, device("HOST"));
  hal::BufferDesc desc;
  desc.size_bytes = static_cast<size_t>(want);
  desc.fd = fd.get();
  ++allocations_;
  return host->allocator().alloc(desc);
}

Result<hal::Buffer> SessionMemory::buffer(const ir::Node* node) {
  if (const auto at = buffers_.find(node->id); at != buffers_.end()) return at->second.memory;
  const Node* whole = owner_of(node);
  const auto& param = whole->as<ir::ParamArg>();
  const uint64_t size = static_cast<uint64_t>(ir::element_count(g_, node)) *
                        static_cast<uint64_t>(ir::item_size(node->dtype));
  Result<hal::Buffer> memory = param.device.substr(0, 5) == "DISK:"
                                   ? map_file(param.device.substr(5), size)
                                   : allocate(ir::device(g_, node), size);
  if (!memory.ok()) return memory;
  buffers_[node->id] = Owned{node, *memory};
  if (const tensor::Weight* w = weights_.find(param.slot)) {
    RETURN_IF_ERROR(write(node, *w->bytes, Deadline::in_ms(kTransferLimitMs)));
  }
  return memory;
}

bool SessionMemory::has(const Node* buffer) const {
  return std::any_of(buffers_.begin(), buffers_.end(),
                     [buffer](const auto& b) { return owner_of(b.second.node) == buffer; });
}

void SessionMemory::drop(const Node* buffer) {
  std::erase_if(buffers_, [buffer](const auto& b) { return owner_of(b.second.node) == buffer; });
}

ir::NodeVec SessionMemory::owners() const {
  ir::NodeVec out;
  for (const auto& [id, owned] : buffers_) {
    const Node* owner = owner_of(owned.node);
    if (std::find(out.begin(), out.end(), owner) == out.end()) out.push_back(owner);
  }
  return out;
}

Status SessionMemory::write(const ir::Node* node,
                            std::span<const std::byte> bytes,
                            Deadline deadline) {
  ASSIGN_OR_RETURN(const hal::Buffer memory, buffer(node));
  if (bytes.size() > memory.size())
    return fail(Errc::kInvalid,
                strf("session: %zu bytes into a buffer of %zu", bytes.size(), memory.size()));
  if (bytes.empty()) return {};
  ASSIGN_OR_RETURN(hal::Device* const on, device(ir::device(g_, node)));
  ASSIGN_OR_RETURN(const hal::TimelinePoint done, on->upload(memory, 0, bytes));
  return on->wait(done, deadline);
}

Status SessionMemory::read(std::span<std::byte> to,
                           const ir::Node* node,
                           uint64_t offset,
                           Deadline deadline) {
  if (to.empty()) return {};
  ASSIGN_OR_RETURN(const hal::Buffer memory, buffer(node));
  ASSIGN_OR_RETURN(hal::Device* const on, device(ir::device(g_, node)));
  return on->download(to, memory, offset, deadline);
}

}  // namespace modeld::exec
