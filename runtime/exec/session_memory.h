// SessionMemory: devices by name and the memory of BUFFERs on them. Part of Session.
// Contract: a buffer gets memory when it is first asked for: a constant's bytes, the file of a DISK
// buffer, zeroes otherwise. Buffers are canonical nodes; one on several devices has a memory per
// device, by MSELECT(BUFFER, i). DISK:<path> and HOST lie in this process's
// memory. Units: bytes. Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "hal/base/clock.h"
#include "hal/base/status.h"
#include "hal/device.h"

#include "runtime/ir/graph.h"
#include "runtime/tensor/weight_store.h"

namespace modeld::exec {

class SessionMemory {
 public:
  SessionMemory(ir::Graph& g, const tensor::WeightStore& weights, hal::DeviceConfig config)
      : g_(g), weights_(weights), config_(std::move(config)) {}

  // kUnsupported for a name that is no CPU.
  Result<hal::Device*> device(const std::string& name);
  Result<hal::Buffer> buffer(const ir::Node* buffer);
  Result<hal::Buffer> allocate(const std::string& device, uint64_t size_bytes);
  bool has(const ir::Node* buffer) const;
  void drop(const ir::Node* buffer);
  // Buffers with memory, by node number.
  ir::NodeVec owners() const;
  Status write(const ir::Node* buffer, std::span<const std::byte> bytes, Deadline deadline);
  Status read(std::span<std::byte> to, const ir::Node* buffer, uint64_t offset, Deadline deadline);
  uint64_t allocations() const { return allocations_; }

 private:
  struct Owned {
    const ir::Node* node = nullptr;
    hal::Buffer memory;
  };
  Result<hal::Buffer> map_file(const std::string& path, uint64_t size_bytes);

  ir::Graph& g_;
  const tensor::WeightStore& weights_;
  hal::DeviceConfig config_;
  std::map<std::string, std::unique_ptr<hal::Device>> devices_;
  std::map<uint32_t, Owned> buffers_;  // by node id
  uint64_t allocations_ = 0;
};

}  // namespace modeld::exec
