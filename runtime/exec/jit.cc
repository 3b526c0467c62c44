#include "runtime/exec/jit.h"

#include <algorithm>
#include <utility>

#include "hal/base/fs.h"

#include "runtime/exec/jit_capture.h"
#include "runtime/exec/jit_lower.h"
#include "runtime/exec/jit_saved.h"
#include "runtime/exec/jit_state.h"
#include "runtime/exec/session_programs.h"
#include "runtime/ir/derived.h"
#include "runtime/ir/print.h"
#include "runtime/ir/rewrite.h"

namespace modeld::exec {

using ir::Fault;
using ir::Node;
using ir::NodeVec;

// Registers a call with its session for as long as it lasts: a second Jit inside is refused in any
// state, although LINEARs are collected only while the function is captured.
class CaptureScope {
 public:
  explicit CaptureScope(Session& session) : session_(session) { capture.collect(false); }
  ~CaptureScope() {
    if (is_open_) session_.end_capture();
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  Status open() {
    RETURN_IF_ERROR(session_.begin_capture(capture));
    is_open_ = true;
    return {};
  }

  JitCapture capture;

 private:
  Session& session_;
  bool is_open_ = false;
};

Jit::Jit(Session& session, JitFunction function, JitOptions options)
    : session_(session), function_(std::move(function)), options_(options) {}

Jit::~Jit() = default;

Status Jit::reset() {
  if (!function_)
    return fail(Fault::kNoFunction, "jit: reset of one that was loaded, it has no function");
  cnt_ = 0;
  state_.reset();
  signature_ = {};
  return {};
}

Status Jit::reinit(Deadline deadline) {
  return state_ == nullptr ? Status{} : state_->reinit(deadline);
}

Status Jit::free_intermediates() {
  if (state_ == nullptr) return fail(Fault::kNotCaptured, "jit: nothing was captured yet");
  state_->free_intermediates();
  return {};
}

Result<std::vector<Live>> Jit::call(const JitArgs& args) {
  return call(args, Deadline::in_ms(session_.options().run_limit_ms));
}

Result<std::vector<Live>> Jit::call(const JitArgs& args, Deadline deadline) {
  if (!options_.enabled) return run_function(args);
  CaptureScope scope(session_);
  RETURN_IF_ERROR(scope.open());
  return dispatch(args, scope, deadline);
}

Result<std::vector<Live>> Jit::dispatch(const JitArgs& args,
                                        CaptureScope& scope,
                                        Deadline deadline) {
  ASSIGN_OR_RETURN(const BoundArgs bound, bind_arguments(session_, args));
  if (cnt_ > 0) RETURN_IF_ERROR(check_signature(signature_, bound.signature));
  if (cnt_ == 0) {
    ASSIGN_OR_RETURN(std::vector<Live> results, run_function(args));
    signature_ = bound.signature;
    cnt_ = 1;
    return results;
  }
  if (cnt_ == 1) RETURN_IF_ERROR(capture(args, bound, scope));
  RETURN_IF_ERROR(state_->load(options_.batch));
  RETURN_IF_ERROR(state_->run(bound, deadline));
  return state_->results();
}

// The function as it is; its results get their memory.
Result<std::vector<Live>> Jit::run_function(const JitArgs& args) {
  if (!function_) return fail(Fault::kNoFunction, "jit: it was loaded, it has no function");
  ASSIGN_OR_RETURN(std::vector<Live> results, function_(session_, args));
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].valid())
      return fail(Fault::kNotABuffer, strf("jit: result %zu is no tensor", i));
  RETURN_IF_ERROR(session_.realize(results));
  for (size_t i = 0; i < results.size(); ++i) {
    const Result<NodeVec> buffers = buffers_of_view(results[i].node(), strf("result %zu", i));
    if (!buffers.ok()) return fail(buffers.error());
  }
  return results;
}

Status Jit::capture(const JitArgs& args, const BoundArgs& bound, CaptureScope& scope) {
  scope.capture.collect(true);
  Result<std::vector<Live>> results = run_function(args);
  scope.capture.collect(false);
  Status done = results.ok() ? build(scope.capture, bound, std::move(*results))
                             : fail(std::move(results).error());
  if (done.ok()) {
    cnt_ = 2;
    return {};
  }
  // Live tensors already stand for what the captured calls would have computed.
  const Status carried_out =
      session_.run_linear(scope.capture.joined(session_.graph()), scope.capture.vars(),
                          Deadline::in_ms(session_.options().run_limit_ms));
  if (!carried_out.ok()) done.error().what += "; then: " + carried_out.error().what;
  return done;
}

Status Jit::build(const JitCapture& capture, const BoundArgs& bound, std::vector<Live> results) {
  const Node* linear = capture.joined(session_.graph());
  if (linear->nsrc == 0)
    return fail(Fault::kNothingCaptured, "jit: the function computed nothing that was captured");
  ASSIGN_OR_RETURN(const NodeVec compiled, session_.compile(std::span(&linear, 1)));
  NodeVec inputs;
  for (const Node* b : bound.buffers) inputs.push_back(session_.canonical(b));
  linear = compiled[0];
  if (options_.prune) {
    ASSIGN_OR_RETURN(const Pruned pruned, prune(session_.graph(), linear, inputs));
    RETURN_IF_ERROR(session_.run_linear(pruned.once, capture.vars(),
                                        Deadline::in_ms(session_.options().run_limit_ms)));
    linear = pruned.kept;
  }
  std::vector<std::string> variables;
  for (const VariableInfo& v : bound.signature.variables) variables.push_back(v.name);
  ASSIGN_OR_RETURN(JitLowered lowered,
                   jit_lower(session_, linear, inputs, variables, capture.vars()));
  auto state = std::make_unique<JitState>(session_, std::move(lowered));
  RETURN_IF_ERROR(state->set_results(std::move(results), inputs));
  RETURN_IF_ERROR(state->load(options_.batch));
  state_ = std::move(state);
  return {};
}

// ---- stored form ----

namespace {

// What code made by this session is made for, without asking for a compiler.
struct MadeFor {
  std::string target, codegen_config;
};

Result<MadeFor> made_for(const Session& session) {
  CompileOptions options = session.options().compile;
  if (options.target.arch.empty()) {
    ASSIGN_OR_RETURN(options.target, hal::parse_target("cpu"));
  }
  ASSIGN_OR_RETURN(const codegen::CodegenOptions codegen, make_codegen_options(options));
  return MadeFor{hal::print_target(options.target), codegen::options_text(codegen)};
}

}  // namespace

Result<SavedJit> Jit::to_saved() {
  if (state_ == nullptr)
    return fail(Fault::kNotCaptured, "jit: it can be saved after its second call");
  RETURN_IF_ERROR(state_->load(options_.batch));  // contents lie in bound memory
  ASSIGN_OR_RETURN(MadeFor made, made_for(session_));
  SavedJit out;
  out.target = std::move(made.target);
  out.codegen_config = std::move(made.codegen_config);
  out.signature = signature_;
  out.linear = state_->rows().linear;
  for (size_t i = 0; i < state_->rows().held.size(); ++i) {
    SavedMemory& m = out.memories.emplace_back();
    const Node* buffer = state_->rows().held[i];
    if (buffer == nullptr) continue;
    m.dtype = buffer->dtype;
    m.elements = ir::element_count(session_.graph(), buffer);
    m.is_product = state_->rows().is_product[i];
    if (m.is_product) continue;
    const auto bytes = static_cast<size_t>(out.linear.memories[i].bytes);
    ASSIGN_OR_RETURN(m.contents, state_->contents(i, bytes));
  }
  for (size_t i = 0; i < state_->results().size(); ++i) {
    ASSIGN_OR_RETURN(const Node* view, state_->result_view(i));
    out.results.push_back(ir::print(view));
  }
  return out;
}

Result<std::vector<std::byte>> Jit::save() {
  ASSIGN_OR_RETURN(const SavedJit saved, to_saved());
  return encode_jit(saved);
}

Status Jit::save_file(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, save());
  return write_file_atomic(path, bytes);
}

Result<std::unique_ptr<Jit>> Jit::load(Session& session,
                                       std::span<const std::byte> bytes,
                                       JitOptions options) {
  ASSIGN_OR_RETURN(SavedJit saved, decode_jit(bytes));
  ASSIGN_OR_RETURN(const MadeFor here, made_for(session));
  RETURN_IF_ERROR(check_made_for(saved, here.target, here.codegen_config));
  auto jit = std::make_unique<Jit>(session, JitFunction{}, options);
  RETURN_IF_ERROR(jit->from_saved(std::move(saved)));
  return jit;
}

Result<std::unique_ptr<Jit>> Jit::load_file(Session& session,
                                            const std::string& path,
                                            JitOptions options) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path));
  auto jit = load(session, bytes, options);
  if (!jit.ok()) return fail(std::move(jit).error().with(path));
  return jit;
}

Status Jit::from_saved(SavedJit saved) {
  signature_ = saved.signature;
  state_ = std::make_unique<JitState>(session_, JitLowered{});
  RETURN_IF_ERROR(state_->restore(saved));
  cnt_ = 2;
  return {};
}

const CompiledLinear* Jit::linear() const {
  return state_ == nullptr ? nullptr : &state_->rows().linear;
}
const GraphReplay* Jit::replay() const {
  return state_ == nullptr ? nullptr : state_->replay();
}
std::vector<hal::Buffer> Jit::arenas() const {
  return state_ == nullptr ? std::vector<hal::Buffer>{} : state_->arenas();
}
size_t Jit::staged_copies() const {
  return state_ == nullptr ? 0 : state_->staged_copies();
}
uint64_t Jit::bound_bytes() const {
  return state_ == nullptr ? 0 : state_->bound_bytes();
}

}  // namespace modeld::exec
