#include "hal/cpu/cpu_queue.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "hal/base/log.h"

namespace modeld::hal {

namespace {

constexpr int64_t kDestroyWaitMs = 2000;
constexpr uint64_t kMaxRanges = 1 << 16;

// What a word must satisfy, checked when it gets its value.
enum class Rule : uint8_t { kAny, kAddress4, kAddress8, kOne, kRanges };

bool satisfies(Rule rule, uint64_t v) {
  switch (rule) {
    case Rule::kAny:
      return true;
    case Rule::kAddress4:
      return v != 0 && v % 4 == 0;
    case Rule::kAddress8:
      return v != 0 && v % 8 == 0;
    case Rule::kOne:
      return v == 1;
    case Rule::kRanges:
      return v <= kMaxRanges;
  }
  return false;
}

const char* rule_text(Rule rule) {
  switch (rule) {
    case Rule::kAny:
      return "anything";
    case Rule::kAddress4:
      return "a 4-byte aligned address";
    case Rule::kAddress8:
      return "an 8-byte aligned address";
    case Rule::kOne:
      return "1 (a CPU kernel has core ranges in groups.x only)";
    case Rule::kRanges:
      return "at most 65536 core ranges";
  }
  return "?";
}

struct Patch {
  uint32_t slot;
  uint32_t word;
  Rule rule;
};

class CpuBound final : public Bound {
 public:
  CpuBound(std::shared_ptr<CpuCore> core,
           std::unique_ptr<CpuRun> run,
           std::vector<Patch> patches,
           size_t inputs)
      : core_(std::move(core)),
        run_(std::move(run)),
        patches_(std::move(patches)),
        input_count_(inputs) {}
  ~CpuBound() override;
  Result<TimelinePoint> submit(std::span<const uint64_t> inputs) override;
  size_t input_count() const override { return input_count_; }
  size_t patched_words() const override { return patched_words_; }

 private:
  Status patch(std::span<const uint64_t> inputs);

  std::shared_ptr<CpuCore> core_;
  std::unique_ptr<CpuRun> run_;
  std::vector<Patch> patches_;
  size_t input_count_;
  std::optional<uint64_t> in_flight_;  // timeline value of the last run
  bool is_patched_ = false;            // every rule was checked once
  size_t patched_words_ = 0;           // by the last submit
};

CpuBound::~CpuBound() {
  if (!in_flight_) return;
  const Status status = core_->wait_progress(*in_flight_, kDestroyWaitMs);
  if (status.ok() || status.error().code == Errc::kDeviceLost) return;
  LOG_ERROR("hal", "%s; recording '%s' is leaked", status.error().what.c_str(),
            run_->label.c_str());
  static_cast<void>(run_.release());  // a thread may still be inside
}

Status CpuBound::patch(std::span<const uint64_t> inputs) {
  patched_words_ = 0;
  for (const Patch& p : patches_) {
    const uint64_t v = inputs[p.slot];
    uint64_t& word = run_->words[p.word];
    if (word == v && is_patched_) continue;
    if (!satisfies(p.rule, v)) {
      is_patched_ = false;  // look at every word again next time
      return fail(Errc::kInvalid,
                  strf("recording '%s': input %u is %llu, wanted %s", run_->label.c_str(), p.slot,
                       static_cast<unsigned long long>(v), rule_text(p.rule)));
    }
    word = v;
    ++patched_words_;
  }
  is_patched_ = true;
  return {};
}

Result<TimelinePoint> CpuBound::submit(std::span<const uint64_t> inputs) {
  if (inputs.size() < input_count_)
    return fail(Errc::kInvalid, strf("recording '%s': %zu inputs given, %zu wanted",
                                     run_->label.c_str(), inputs.size(), input_count_));
  if (in_flight_) {
    RETURN_IF_ERROR(core_->wait_progress(*in_flight_, core_->config.submit_wait_ms));
    in_flight_.reset();
  }
  RETURN_IF_ERROR(patch(inputs));
  ASSIGN_OR_RETURN(const uint64_t value, core_->push(*run_));
  in_flight_ = value;
  return TimelinePoint{core_->info.index, core_->epoch, value};
}

class CpuRecorder final : public Recorder {
 public:
  CpuRecorder(std::shared_ptr<CpuCore> core, std::string label)
      : core_(std::move(core)), run_(std::make_unique<CpuRun>()) {
    run_->label = std::move(label);
  }

  using Recorder::signal;
  using Recorder::wait;
  Recorder& wait(Word addr, Word value) override;
  Recorder& signal(Word addr, Word value) override;
  Recorder& wait(TimelinePoint point) override;
  // Commands run one after the other on host memory, so order is all the barrier there is.
  Recorder& barrier() override { return *this; }
  Recorder& stamp(const Signal& signal) override;
  Recorder& launch(const std::shared_ptr<Program>& program,
                   std::span<const Word> args,
                   Dim3 groups,
                   Dim3 local) override;
  Recorder& copy(Word dst, Word src, Word size_bytes) override;
  Recorder& write(Word dst, Word value, bool wide) override;
  Recorder& poll(Word addr, uint32_t ref, uint32_t mask) override;
  Recorder& keep(const Buffer& buffer) override;
  Result<std::unique_ptr<Bound>> bind() && override;

 private:
  CpuOp& add(CpuOp::Kind kind);
  void add_word(Word w, Rule rule);
  void latch(Errc code, const std::string& what);

  std::shared_ptr<CpuCore> core_;
  std::unique_ptr<CpuRun> run_;
  std::vector<Patch> patches_;
  size_t input_count_ = 0;
  std::optional<Error> error_;  // the first one
};

void CpuRecorder::latch(Errc code, const std::string& what) {
  if (error_) return;
  error_.emplace();
  error_->code = code;
  error_->what =
      strf("recording '%s', command %zu: %s", run_->label.c_str(), run_->ops.size(), what.c_str());
}

CpuOp& CpuRecorder::add(CpuOp::Kind kind) {
  CpuOp op;
  op.kind = kind;
  op.words = static_cast<uint32_t>(run_->words.size());
  run_->ops.push_back(op);
  return run_->ops.back();
}

void CpuRecorder::add_word(Word w, Rule rule) {
  const auto index = static_cast<uint32_t>(run_->words.size());
  run_->words.push_back(w.is_patched() ? 0 : w.imm);
  if (w.is_patched()) {
    patches_.push_back({static_cast<uint32_t>(w.slot), index, rule});
    input_count_ = std::max(input_count_, static_cast<size_t>(w.slot) + 1);
  } else if (!satisfies(rule, w.imm)) {
    latch(Errc::kInvalid,
          strf("word is %llu, wanted %s", static_cast<unsigned long long>(w.imm), rule_text(rule)));
  }
}

Recorder& CpuRecorder::wait(Word addr, Word value) {
  add(CpuOp::Kind::kWait);
  add_word(addr, Rule::kAddress8);
  add_word(value, Rule::kAny);
  return *this;
}

Recorder& CpuRecorder::signal(Word addr, Word value) {
  CpuOp& op = add(CpuOp::Kind::kSignal);
  if (!addr.is_patched()) op.slot = core_->signals->find(addr.imm);
  add_word(addr, Rule::kAddress8);
  add_word(value, Rule::kAny);
  return *this;
}

Recorder& CpuRecorder::wait(TimelinePoint point) {
  if (point.epoch != core_->epoch || point.device != core_->info.index) {
    latch(Errc::kUnsupported, "wait for another device's timeline; use a shared signal");
  } else if (point.value > core_->last_pushed()) {
    latch(Errc::kInvalid, strf("wait for own timeline value %llu, last submitted is %llu",
                               static_cast<unsigned long long>(point.value),
                               static_cast<unsigned long long>(core_->last_pushed())));
  }
  return *this;  // own earlier work is done before anything of this recording starts
}

Recorder& CpuRecorder::stamp(const Signal& signal) {
  add(CpuOp::Kind::kStamp).slot = signal.slot();
  return *this;
}

Recorder& CpuRecorder::launch(const std::shared_ptr<Program>& program,
                              std::span<const Word> args,
                              Dim3 groups,
                              Dim3 local) {
  const auto* cpu_program = dynamic_cast<const CpuProgram*>(program.get());
  if (cpu_program == nullptr) {
    latch(Errc::kInvalid, "launch of a program that this device did not load");
    return *this;
  }
  if (args.size() != cpu_program->arg_count()) {
    latch(Errc::kInvalid, strf("kernel %s takes %u arguments, %zu given",
                               cpu_program->name().c_str(), cpu_program->arg_count(), args.size()));
    return *this;
  }
  CpuOp& op = add(CpuOp::Kind::kLaunch);
  op.program = cpu_program;
  op.is_parallel = groups.x.is_patched() || groups.x.imm > 1;
  add_word(groups.x, Rule::kRanges);
  for (const Word& arg : args) add_word(arg, Rule::kAny);
  for (const Word& one : {groups.y, groups.z, local.x, local.y, local.z}) add_word(one, Rule::kOne);
  run_->programs.push_back(program);
  return *this;
}

Recorder& CpuRecorder::copy(Word dst, Word src, Word size_bytes) {
  add(CpuOp::Kind::kCopy);
  add_word(dst, Rule::kAny);
  add_word(src, Rule::kAny);
  add_word(size_bytes, Rule::kAny);
  return *this;
}

Recorder& CpuRecorder::write(Word dst, Word value, bool wide) {
  add(wide ? CpuOp::Kind::kWrite64 : CpuOp::Kind::kWrite32);
  add_word(dst, wide ? Rule::kAddress8 : Rule::kAddress4);
  add_word(value, Rule::kAny);
  return *this;
}

Recorder& CpuRecorder::poll(Word addr, uint32_t ref, uint32_t mask) {
  CpuOp& op = add(CpuOp::Kind::kPoll);
  op.ref = ref;
  op.mask = mask;
  add_word(addr, Rule::kAddress4);
  return *this;
}

Recorder& CpuRecorder::keep(const Buffer& buffer) {
  run_->buffers.push_back(buffer);
  return *this;
}

Result<std::unique_ptr<Bound>> CpuRecorder::bind() && {
  if (error_) return fail(std::move(*error_));
  if (core_->is_closed())
    return fail(Errc::kDeviceLost, core_->info.uri + ": bind on a closed device");
  run_->seal(core_->team.threads(), core_->closed_flag(),
             core_->config.profile ? &core_->profile : nullptr);
  return std::unique_ptr<Bound>(std::make_unique<CpuBound>(std::move(core_), std::move(run_),
                                                           std::move(patches_), input_count_));
}

}  // namespace

std::unique_ptr<Recorder> make_cpu_recorder(std::shared_ptr<CpuCore> core, std::string label) {
  return std::make_unique<CpuRecorder>(std::move(core), std::move(label));
}

}  // namespace modeld::hal
