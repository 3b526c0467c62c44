#include "runtime/render/opencl_kernel.h"

#include <map>
#include <set>

#include "runtime/ir/derived.h"

namespace modeld::render {

using ir::Node;
using ir::Op;

namespace {

// PARAMs by slot.
std::map<int64_t, const Node*> arguments(std::span<const Node* const> linear) {
  std::map<int64_t, const Node*> out;
  for (const Node* n : linear) {
    if (n->op == Op::kParam && n->as<ir::ParamArg>().slot >= 0) {
      out[n->as<ir::ParamArg>().slot] = n;
    }
  }
  return out;
}

std::set<int64_t> stored_slots(std::span<const Node* const> linear) {
  std::set<int64_t> out;
  for (const Node* n : linear) {
    if (n->op != Op::kStore) continue;
    const Node* to = n->src(0);
    while (to->op == Op::kAfter || to->op == Op::kIndex || to->op == Op::kShrink) to = to->src(0);
    if (to->op == Op::kParam) out.insert(to->as<ir::ParamArg>().slot);
  }
  return out;
}

std::string argument(const CDialect& d, ir::Graph& g, const Node* n, bool stored) {
  const auto& p = n->as<ir::ParamArg>();
  const auto slot = static_cast<long long>(p.slot);
  if (p.addrspace == ir::AddrSpace::kAlu)
    return "const " + c_type(d, n->dtype) + strf(" s%lld", slot);
  if (ir::max_shape(g, n).size() == 3)
    return strf("%s image2d_t d%lld", stored ? "write_only" : "read_only", slot);
  return std::string("__global ") + (p.is_volatile ? "volatile " : "") + (stored ? "" : "const ") +
         c_memory_type(d, n->dtype) + strf("* d%lld", slot);
}

// "" where the device may choose: an index over the whole grid, in a language that has one.
std::string group_attribute(const CDialect& d, ir::Graph& g, std::span<const Node* const> linear) {
  int64_t size[3] = {1, 1, 1};
  for (const Node* n : linear) {
    if (n->op != Op::kSpecial) continue;
    const std::string& name = n->as<std::string>();
    if (name[0] == 'i' && d.language == CLanguage::kOpenCl) return "";
    if (name[0] == 'l') size[name.back() - '0'] = ir::vmax(g, n) + 1;
  }
  return strf("__attribute__((reqd_work_group_size(%lld, %lld, %lld)))\n",
              static_cast<long long>(size[0]), static_cast<long long>(size[1]),
              static_cast<long long>(size[2]));
}

}  // namespace

Result<std::string> opencl_kernel(const CDialect& d,
                                  ir::Graph& g,
                                  std::span<const Node* const> linear,
                                  const std::string& name) {
  auto body = c_body(d, g, linear);
  if (!body.ok()) return fail(std::move(body).error().with("render " + name));
  const auto params = arguments(linear);
  const std::set<int64_t> stored = stored_slots(linear);
  std::string list;
  const int64_t count = params.empty() ? 0 : params.rbegin()->first + 1;
  for (int64_t slot = 0; slot < count; ++slot) {
    const auto it = params.find(slot);
    list += slot > 0 ? ", " : "";
    list += it == params.end() ? strf("__global const void* d%lld", static_cast<long long>(slot))
                               : argument(d, g, it->second, stored.contains(slot));
  }
  return "__kernel " + group_attribute(d, g, linear) + "void " + name + "(" + list + ") {\n" +
         *body + "}\n";
}

}  // namespace modeld::render
