#include "runtime/exec/compiled_linear.h"

#include <algorithm>
#include <set>

#include "hal/base/bytes.h"
#include "hal/program.h"

namespace modeld::exec {

namespace {

Status check_arg(const CompiledLinear& linear, const CallArg& arg) {
  const ArgRef& r = arg.ref;
  switch (r.kind) {
    case ArgRef::Kind::kBuffer:
      if (r.index >= linear.memories.size())
        return fail(Errc::kCorrupt, strf("memory %u is not there", r.index));
      if (!in_bounds(r.offset, arg.bytes, linear.memories[r.index].bytes))
        return fail(Errc::kCorrupt, strf("outside of memory %u", r.index));
      return {};
    case ArgRef::Kind::kSlot:
      if (r.index >= linear.inputs.size())
        return fail(Errc::kCorrupt, strf("input %u is not there", r.index));
      if (!in_bounds(r.offset, arg.bytes, linear.inputs[r.index].bytes))
        return fail(Errc::kCorrupt, strf("outside of input %u", r.index));
      return {};
    case ArgRef::Kind::kScalar:
      if (r.index >= linear.variables.size())
        return fail(Errc::kCorrupt, strf("variable %u is not there", r.index));
      return {};
    case ArgRef::Kind::kConst:
      return {};
  }
  return fail(Errc::kCorrupt, "argument of no known kind");
}

uint32_t device_of(const CompiledLinear& linear, const CallArg& arg) {
  return arg.ref.kind == ArgRef::Kind::kBuffer ? linear.memories[arg.ref.index].device
                                               : linear.inputs[arg.ref.index].device;
}

Status check_copy(const CompiledLinear& linear, const CompiledCall& call) {
  if (call.args.size() != 2 || !is_address(call.args[0]) || !is_address(call.args[1]))
    return fail(Errc::kCorrupt, "a copy needs a destination and a source");
  if (call.args[0].bytes != call.args[1].bytes)
    return fail(Errc::kCorrupt, "a copy between different sizes");
  if (call.device != device_of(linear, call.args[1]))
    return fail(Errc::kCorrupt, "a copy runs on the device of its source");
  return {};
}

Status check_launch(const CompiledLinear& linear, const CompiledCall& call) {
  if (call.program >= linear.programs.size())
    return fail(Errc::kCorrupt, strf("program %u is not there", call.program));
  const ProgramRow& p = linear.programs[call.program];
  if (call.args.size() != p.arg_count())
    return fail(Errc::kCorrupt, strf("%zu arguments, kernel %s takes %u", call.args.size(),
                                     p.name.c_str(), p.arg_count()));
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (is_address(call.args[i]) != (i < p.buffer_args))
      return fail(Errc::kCorrupt, "scalar and buffer arguments are mixed up");
    if (is_address(call.args[i]) && device_of(linear, call.args[i]) != call.device)
      return fail(Errc::kCorrupt, strf("argument %zu is memory of another device", i));
  }
  return {};
}

Status check_call(const CompiledLinear& linear, const CompiledCall& call) {
  if (call.device >= linear.devices.size())
    return fail(Errc::kCorrupt, strf("device %u is not there", call.device));
  for (const CallArg& arg : call.args) RETURN_IF_ERROR(check_arg(linear, arg));
  switch (call.kind) {
    case CallRow::Kind::kCopy:
      return check_copy(linear, call);
    case CallRow::Kind::kProgram:
      return check_launch(linear, call);
  }
  return fail(Errc::kCorrupt, "unknown kind of call");
}

Status check_program(const ProgramRow& p) {
  if (p.arg_count() < p.buffer_args || p.arg_count() > hal::kMaxArgs)
    return fail(Errc::kCorrupt, strf("kernel %s: too many arguments", p.name.c_str()));
  for (const std::vector<uint32_t>* list : {&p.outs, &p.ins})
    for (const uint32_t at : *list)
      if (at >= p.buffer_args)
        return fail(Errc::kCorrupt,
                    strf("kernel %s: argument %u is no buffer", p.name.c_str(), at));
  const Image& im = p.image;
  if (im.size != im.code.size() || (!im.is_missing() && im.entry_offset >= im.size))
    return fail(Errc::kCorrupt, strf("kernel %s: entry outside of its code", p.name.c_str()));
  if (im.alignment == 0 || im.alignment > 4096 || (im.alignment & (im.alignment - 1)) != 0)
    return fail(Errc::kCorrupt, strf("kernel %s: alignment", p.name.c_str()));
  return {};
}

}  // namespace

bool is_address(const CallArg& arg) {
  return arg.ref.kind == ArgRef::Kind::kBuffer || arg.ref.kind == ArgRef::Kind::kSlot;
}

CallAccess access_of(const CompiledLinear& linear, const CompiledCall& call) {
  if (call.kind == CallRow::Kind::kCopy) return {{1}, {0}};
  const ProgramRow& p = linear.programs[call.program];
  return {p.ins, p.outs};
}

Status check_compiled_linear(const CompiledLinear& linear) {
  std::set<std::string> names;
  for (const DeviceRow& d : linear.devices)
    if (!names.insert(d.name).second)
      return fail(Errc::kCorrupt, strf("compiled linear: device %s appears twice", d.name.c_str()));
  for (const ProgramRow& p : linear.programs)
    if (Status s = check_program(p); !s.ok())
      return fail(std::move(s).error().with("compiled linear"));
  for (size_t i = 0; i < linear.memories.size(); ++i)
    if (linear.memories[i].device >= linear.devices.size())
      return fail(Errc::kCorrupt, strf("compiled linear: memory %zu has no device", i));
  for (size_t i = 0; i < linear.inputs.size(); ++i)
    if (linear.inputs[i].device >= linear.devices.size())
      return fail(Errc::kCorrupt, strf("compiled linear: input %zu has no device", i));
  for (size_t i = 0; i < linear.calls.size(); ++i)
    if (Status s = check_call(linear, linear.calls[i]); !s.ok())
      return fail(std::move(s).error().with(strf("compiled linear: call %zu", i)));
  return {};
}

}  // namespace modeld::exec
