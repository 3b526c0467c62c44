// One random program through engine and subject: every step on both sides, every realize()
// foretold, scheduled, looked at, run and compared. Scheduling and running are two halves, so that
// many programs share one call of the compiler. Contract: a finding says what differs and where; an
// empty one means that everything agreed. Threading: one thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "selftest/fuzz/graph_engine.h"
#include "selftest/fuzz/graph_program.h"
#include "selftest/fuzz/graph_subject.h"

namespace modeld::fuzz {

struct Finding {
  enum class Kind : uint8_t {
    kNone,
    kMismatch,    // memory holds other values
    kRefused,     // an error without a reason in the program
    kNotRefused,  // no error where one was made on purpose
    kSchedule,    // a LINEAR or a memory plan that breaks a rule
    kRun,         // compiling or running failed
  };
  Kind kind = Kind::kNone;
  std::string text;
  explicit operator bool() const { return kind != Kind::kNone; }
};

// What the closing lines are made of.
struct CaseFacts {
  size_t nodes = 0, kernels = 0;
  bool has_war = false, has_overlap = false, has_refusal = false;
  bool has_devices = false, has_variable = false;
};

// Changes what one stage hands to the next, for --self-proof.
class Saboteur {
 public:
  virtual ~Saboteur() = default;
  virtual void damage(ir::Graph& g, exec::SessionLinear& work) = 0;
  // What LINEARs are looked at by; nullopt: they are not looked at, only run.
  virtual std::optional<schedule::ScheduleOptions> promised(const schedule::ScheduleOptions& o) {
    return o;
  }
};

class GraphCase {
 public:
  explicit GraphCase(Program program) : program_(std::move(program)) {}

  Finding schedule(Subject& subject, Saboteur* saboteur = nullptr);
  std::vector<exec::SessionLinear*> linears();
  Finding run(Subject& subject);

  const Program& program() const { return program_; }
  const CaseFacts& facts() const { return facts_; }

 private:
  struct Expected {
    size_t tensor = 0;
    const ir::Node* buffer = nullptr;
    size_t first = 0;  // element of the buffer where `values` begin
    std::vector<double> values;
  };
  struct Run {
    size_t step = 0;
    exec::SessionLinear work;
    std::vector<Expected> memory;  // after it
  };

  Finding realize(Subject& subject, size_t number, Saboteur* saboteur);
  Finding refused(const Error& e, const Forecast& f, size_t number);
  Finding expect(Subject& subject, Run* run);
  static std::string look_at(Subject& subject, const Run& run, Saboteur* saboteur);
  static Finding compare(const Expected& want, const std::vector<double>& have, size_t step);

  Program program_;
  Engine engine_;
  CaseFacts facts_;
  std::vector<Run> runs_;
};

}  // namespace modeld::fuzz
