// What a Jit knows of its arguments: names, views, types and memory of tensors, names and ranges of
// variables. Every call must have the signature of the first one. Contract: tensors are realised
// here if they were not; each stands on memory of its own (kNotABuffer), no two share any
// (kDuplicateInput); an empty() nobody wrote gets its (zeroed) memory here. A signature holds no
// address and no value: other contents, other buffers and other values of variables match.
// Units: bytes. Threading: one thread, as the Session.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hal/base/status.h"

#include "runtime/exec/session.h"
#include "runtime/ir/graph.h"

namespace modeld::exec {

// The arguments of one call: positional tensors, keywords (in the order of their names), lists, and
// variables with their values (schedule::bind).
class JitArgs {
 public:
  JitArgs() = default;
  JitArgs(std::initializer_list<Live> positional) : positional_(positional) {}
  JitArgs& add(Live t);                              // named by its position: "0", "1"
  JitArgs& add(const std::string& keyword, Live t);  // later ones of the same name win
  JitArgs& add_list(const std::string& keyword, std::vector<Live> list);  // "keyword[0]", ...
  JitArgs& add_variable(const ir::Node* bound);

  // For the function; asking for what is not there is a bug.
  const Live& at(size_t position) const { return positional_.at(position); }
  const Live& at(const std::string& keyword) const { return keywords_.at(keyword).at(0); }
  const std::vector<Live>& list(const std::string& keyword) const { return keywords_.at(keyword); }
  const ir::Node* variable(const std::string& name) const;

  struct Named {
    std::string name;
    Live tensor;
  };
  std::vector<Named> tensors() const;  // positional first, then by keyword
  const std::vector<const ir::Node*>& variables() const { return variables_; }

 private:
  std::vector<Live> positional_;
  std::map<std::string, std::vector<Live>> keywords_;
  std::map<std::string, bool> is_list_;
  std::vector<const ir::Node*> variables_;
};

struct BufferInfo {
  std::string device;
  ir::DType dtype = ir::DType::kF32;
  uint64_t bytes = 0;
  bool operator==(const BufferInfo&) const = default;
};

struct InputInfo {
  std::string name;
  ir::DType dtype = ir::DType::kF32;
  std::vector<int64_t> dims;
  std::string view;                 // how it lies in its buffers, without variables' values
  std::vector<BufferInfo> buffers;  // one, or one per device of a multi-device tensor
  bool operator==(const InputInfo&) const = default;
};

struct VariableInfo {
  std::string name;
  int64_t vmin = 0, vmax = 0, multiple_of = 1;
  bool operator==(const VariableInfo&) const = default;
};

struct JitSignature {
  std::vector<InputInfo> inputs;
  std::vector<VariableInfo> variables;  // by name
  bool operator==(const JitSignature&) const = default;
};

// kArgsMismatch naming the first difference.
Status check_signature(const JitSignature& captured, const JitSignature& given);

// Arguments of one call, looked at.
struct BoundArgs {
  JitSignature signature;
  ir::NodeVec buffers;              // of all inputs, in order: as the tensors name them now
  std::vector<hal::Buffer> memory;  // parallel
  std::vector<int64_t> values;      // of the variables
};
Result<BoundArgs> bind_arguments(Session& session, const JitArgs& args);

// BUFFERs (or PARAMs) below a node that is nothing but views of memory, in order of first visit;
// kNotABuffer for anything else. `what` names it in the error.
Result<ir::NodeVec> buffers_of_view(const ir::Node* node, const std::string& what);

}  // namespace modeld::exec
