#include "runtime/ir/arg.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "hal/base/status.h"

namespace modeld::ir {
namespace {

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\' || c == '\n') out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out + "\"";
}

const char* space_name(AddrSpace s) {
  switch (s) {
    case AddrSpace::kGlobal:
      return "global";
    case AddrSpace::kLocal:
      return "local";
    case AddrSpace::kReg:
      return "reg";
    case AddrSpace::kAlu:
      return "alu";
  }
  return "?";
}

std::string ints_text(const Ints& v) {
  std::string out;
  for (size_t i = 0; i < v.size(); ++i) out += (i ? "," : "") + std::to_string(v[i]);
  return out;
}

// Every NaN is one text; -0.0 and 0.0 differ.
std::string float_text(double v) {
  if (std::isnan(v)) return "float nan";
  return strf("float 0x%016llx", static_cast<unsigned long long>(std::bit_cast<uint64_t>(v)));
}

struct Text {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(int64_t v) const { return "int " + std::to_string(v); }
  std::string operator()(double v) const { return float_text(v); }
  std::string operator()(bool v) const { return v ? "bool 1" : "bool 0"; }
  std::string operator()(Invalid) const { return "invalid"; }
  std::string operator()(const std::string& s) const { return "str " + quoted(s); }
  std::string operator()(const Ints& v) const { return "ints " + ints_text(v); }
  std::string operator()(const ParamArg& p) const {
    return strf("param slot=%lld space=%s vmin=%lld vmax=%lld mult=%lld vol=%d",
                static_cast<long long>(p.slot), space_name(p.addrspace),
                static_cast<long long>(p.vmin), static_cast<long long>(p.vmax),
                static_cast<long long>(p.multiple_of), p.is_volatile ? 1 : 0) +
           " name=" + quoted(p.name) + " device=" + quoted(p.device) +
           (p.axis < 0 ? "" : " axis=" + std::to_string(p.axis));
  }
  std::string operator()(const RangeArg& r) const {
    return strf("range %lld %s", static_cast<long long>(r.id), axis_name(r.type));
  }
  std::string operator()(const ReduceArg& r) const {
    return strf("reduce %s %lld", op_name(r.op), static_cast<long long>(r.axes));
  }
  std::string operator()(const StageArg& s) const {
    return strf("stage %s %d device=", space_name(s.addrspace), s.removable ? 1 : 0) +
           quoted(s.device);
  }
  std::string operator()(const Opts& o) const { return "opts " + opts_text(o); }
  std::string operator()(const KernelInfo& k) const {
    return "kernel name=" + quoted(k.name) + " applied=" + opts_text(k.applied_opts) +
           " apply=" + (k.opts_to_apply ? opts_text(*k.opts_to_apply) : "auto") +
           strf(" nolocals=%d beam=%lld", k.dont_use_locals ? 1 : 0,
                static_cast<long long>(k.beam));
  }
  std::string operator()(const ProgramInfo& p) const {
    std::string out = "program name=" + quoted(p.name) + " globals=" + ints_text(p.globals) +
                      " outs=" + ints_text(p.outs) + " ins=" + ints_text(p.ins) + " vars=";
    for (const std::string& v : p.vars) out += quoted(v);
    for (int64_t g : p.global_size) out += " g" + std::to_string(g);
    for (int64_t l : p.local_size) out += " l" + std::to_string(l);
    return out + strf(" flops=%lld lds=%lld mem=%lld", static_cast<long long>(p.flops),
                      static_cast<long long>(p.lds_bytes), static_cast<long long>(p.mem_bytes));
  }
  std::string operator()(const AllReduceArg& a) const {
    return std::string("allreduce ") + op_name(a.op) + " device=" + quoted(a.device);
  }
  std::string operator()(const WmmaArg& w) const {
    return "wmma core=" + quoted(w.core) + " a=" + ints_text(w.a_axes) +
           " b=" + ints_text(w.b_axes);
  }
};

constexpr const char* kOptNames[] = {"TC",       "UPCAST", "UNROLL",   "LOCAL", "GROUP",
                                     "GROUPTOP", "THREAD", "NOLOCALS", "PADTO", "SWAP"};

}  // namespace

std::string arg_text(const Arg& arg) {
  return std::visit(Text{}, arg);
}

std::string opt_text(const Opt& opt) {
  if (opt.op == OptOp::kNoLocals) return "NOLOCALS";
  return strf("%s(%lld,%lld)", kOptNames[static_cast<size_t>(opt.op)],
              static_cast<long long>(opt.axis), static_cast<long long>(opt.arg));
}

std::string opts_text(const Opts& opts) {
  std::string out = "[";
  for (size_t i = 0; i < opts.size(); ++i) out += (i ? " " : "") + opt_text(opts[i]);
  return out + "]";
}

const char* axis_name(AxisType t) {
  switch (t) {
    case AxisType::kDevice:
      return "device";
    case AxisType::kWeak:
      return "weak";
    case AxisType::kLoop:
      return "loop";
    case AxisType::kGlobal:
      return "global";
    case AxisType::kThread:
      return "thread";
    case AxisType::kWarp:
      return "warp";
    case AxisType::kLocal:
      return "local";
    case AxisType::kGroupReduce:
      return "group_reduce";
    case AxisType::kUpcast:
      return "upcast";
    case AxisType::kReduce:
      return "reduce";
    case AxisType::kUnroll:
      return "unroll";
    case AxisType::kPlaceholder:
      return "placeholder";
  }
  return "?";
}

int axis_position(AxisType t) {
  switch (t) {
    case AxisType::kDevice:
      return -2;
    case AxisType::kWeak:
    case AxisType::kLoop:
      return -1;
    case AxisType::kGlobal:
    case AxisType::kThread:
      return 0;
    case AxisType::kWarp:
      return 1;
    case AxisType::kLocal:
    case AxisType::kGroupReduce:
      return 2;
    case AxisType::kUpcast:
      return 3;
    case AxisType::kReduce:
      return 4;
    case AxisType::kUnroll:
      return 5;
    case AxisType::kPlaceholder:
      return 6;
  }
  return 6;
}

}  // namespace modeld::ir
