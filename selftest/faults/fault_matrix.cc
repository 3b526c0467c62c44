// fault-matrix: every fault of the contract against the real programs, one row each.
// Each row runs in a process of its own with the real modeld, modelcam and modelctl; the table says
// what was expected and what was seen. A row in which something was only late is run again, alone
// and at most three times: its time bounds are the contract's, and a busy machine can miss one.
// What is wrong once (a message, a reason, an output, the gate's log) fails the row. Exit 1 when a
// row failed, or when a deliberate defect (--self-proof) was not found; 2: a bad option.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>

#include "hal/base/env.h"
#include "hal/base/unique_fd.h"

#include "selftest/faults/judge.h"

namespace modeld::faults {
namespace {

constexpr int64_t kRowLimitMs = 90'000;
constexpr int kMoreTries = 3;

struct Options {
  std::vector<std::string> only;
  bool json = false;
  bool list = false;
  bool self_proof = false;
  int jobs = 2;
  int64_t slack = 1;
};

// One row to run, perhaps with a deliberate defect in the programs.
struct Task {
  const Row* row = nullptr;
  std::string defect;
  bool only_first_try = false;  // the defect is gone when the row is run again
};

// ---- one row in a process of its own ----

struct Running {
  size_t task = 0;
  pid_t pid = 0;
  UniqueFd from_row;
  std::string text;
  int64_t end_ns = 0;
};

[[noreturn]] void be_the_row(const Task& task, int to_parent, int64_t slack) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string text = to_json(run_row(*task.row, task.defect, slack)).dump();
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(to_parent, text.data() + done, text.size() - done);
    if (n <= 0) _exit(1);
    done += static_cast<size_t>(n);
  }
  _exit(0);
}

Running start(const Task& task, size_t index, int64_t slack) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    be_the_row(task, ends[1], slack);
  }
  close(ends[1]);
  return {index, pid, UniqueFd(ends[0]), "", now_ns() + kRowLimitMs * kNsPerMs};
}

// True when the row has said all it will say.
bool read_some(Running& r) {
  char chunk[4096];
  const ssize_t n = read(r.from_row.get(), chunk, sizeof chunk);
  if (n > 0) r.text.append(chunk, static_cast<size_t>(n));
  return n <= 0;
}

Verdict finish(Running& r, const Task& task) {
  const bool is_over_time = now_ns() >= r.end_ns;
  if (is_over_time) kill(r.pid, SIGKILL);
  int status = 0;
  waitpid(r.pid, &status, 0);
  const auto json = Json::parse(r.text);
  if (json.ok() && json->find("findings") != nullptr) return from_json(*json);
  Verdict v;
  v.row = task.row->name;
  auto& to = is_over_time ? v.late : v.findings;
  to.push_back(WIFSIGNALED(status) ? strf("the row ended by signal %d", WTERMSIG(status))
                                   : std::string("the row gave no verdict"));
  return v;
}

// Runs all tasks, `jobs` side by side; `told` hears of each verdict as it comes.
template <class Told>
void run_all(const std::vector<Task>& tasks, int jobs, int64_t slack, const Told& told) {
  std::vector<Running> running;
  size_t next = 0;
  while (next < tasks.size() || !running.empty()) {
    while (next < tasks.size() && running.size() < static_cast<size_t>(jobs)) {
      running.push_back(start(tasks[next], next, slack));
      ++next;
    }
    std::vector<pollfd> fds;
    for (const Running& r : running) fds.push_back({r.from_row.get(), POLLIN, 0});
    poll(fds.data(), fds.size(), 200);
    for (size_t i = running.size(); i-- > 0;) {
      const bool said = (fds[i].revents & (POLLIN | POLLHUP)) != 0;
      if (!(said && read_some(running[i])) && now_ns() < running[i].end_ns) continue;
      told(running[i].task, finish(running[i], tasks[running[i].task]));
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

// ---- the table ----

std::string ms_text(int64_t ms) {
  return ms < 0 ? "-" : strf("%lld", static_cast<long long>(ms));
}

std::string expected_text(const Row& row) {
  switch (row.see) {
    case See::kUnaffected:
      return "READY all the time";
    case See::kSilence:
      return "silence";
    case See::kState:
      break;
  }
  std::string out = ipc::model_state_name(row.state);
  if (row.reason != ipc::Reason::kNone)
    out += std::string("(") + ipc::reason_name(row.reason) + ")";
  return out;
}

std::string back_text(const Row& row) {
  if (row.back == Back::kStays) return "stays";
  return strf("%s %lld", row.back == Back::kItself ? "itself" : "repair",
              static_cast<long long>(row.back_ms));
}

std::string gate_text(const Verdict& v) {
  if (v.gate_ms < 0) return v.gate;
  return strf("%s; frame %llu %lld ms before, out %lld ms after the first missed", v.gate.c_str(),
              static_cast<unsigned long long>(v.gate_frame),
              static_cast<long long>(v.gate_frame_ms), static_cast<long long>(v.gate_ms));
}

void print_head() {
  std::printf("%-24s %-6s %-10s %-52s %-6s %-29s %5s | %-29s %5s | %-12s %5s | %-9s %s\n", "row",
              "by", "source", "injected", "model", "expected", "ms", "seen", "ms", "back", "ms",
              "messages", "gate");
}

void print_row(const Row& row, const Verdict& v) {
  std::printf("%-24s %-6s %-10s %-52s %-6s %-29s %5lld | %-29s %5s | %-12s %5s | %4llu %4llu %s\n",
              row.name, row.by == By::kWorld ? "world" : "switch", row.source, row.injected,
              row.model, expected_text(row).c_str(), static_cast<long long>(row.bound_ms),
              v.seen.c_str(), ms_text(v.seen_ms).c_str(), back_text(row).c_str(),
              ms_text(v.back_ms).c_str(), static_cast<unsigned long long>(v.messages),
              static_cast<unsigned long long>(v.valid), gate_text(v).c_str());
  if (!v.note.empty()) std::printf("    %s\n", v.note.c_str());
  if (!v.skipped.empty()) std::printf("    SKIPPED: %s\n", v.skipped.c_str());
  for (const std::string& f : v.findings) std::printf("    FAILED: %s\n", f.c_str());
  for (const std::string& f : v.late) std::printf("    LATE: %s\n", f.c_str());
  std::fflush(stdout);
}

// What the gate did in all rows: how often it left, and when at the latest.
struct GateSum {
  int soft = 0;
  int immediate = 0;
  const Verdict* slowest = nullptr;  // null: it never left
};

GateSum sum_gate(const std::vector<Verdict>& verdicts) {
  GateSum out;
  for (const Verdict& v : verdicts) {
    if (v.gate_ms < 0) continue;
    ++(v.gate == "soft disable" ? out.soft : out.immediate);
    if (out.slowest == nullptr || v.gate_ms > out.slowest->gate_ms) out.slowest = &v;
  }
  return out;
}

void print_gate(const GateSum& sum) {
  if (sum.slowest == nullptr) return;
  std::printf(
      "gate: left softly in %d rows, for good in %d; the slowest %lld ms after the first "
      "missed frame (%s)\n",
      sum.soft, sum.immediate, static_cast<long long>(sum.slowest->gate_ms),
      sum.slowest->row.c_str());
}

Json gate_json(const GateSum& sum) {
  Json out = Json::object();
  out.set("soft_disable", sum.soft).set("immediate_disable", sum.immediate);
  if (sum.slowest != nullptr)
    out.set("slowest_ms", sum.slowest->gate_ms).set("slowest_row", sum.slowest->row);
  return out;
}

// ---- the whole ----

// Made before any row: compiling beside a row would cost it its time.
void make_bundles() {
  for (const char* role : {"road", "cabin"}) e2e::tiny_bundle(role);
  for (const char* variant : {"nan", "nan-state", "inf-slice", "zero"})
    e2e::tiny_bundle("road", variant);
  for (const char* variant : {"nan", "zero"}) e2e::tiny_bundle("cabin", variant);
}

// Once more, without a defect that only the first try has.
void run_again(const Task& task, const Options& options, Verdict& verdict) {
  if (!options.json) std::printf("run again, alone: %s\n", task.row->name);
  std::vector<std::string> earlier = std::move(verdict.earlier);
  earlier.insert(earlier.end(), verdict.late.begin(), verdict.late.end());
  const Task again = {task.row, task.only_first_try ? "" : task.defect};
  run_all({again}, 1, options.slack, [&](size_t, Verdict v) { verdict = std::move(v); });
  verdict.earlier = std::move(earlier);
}

// Every task, and what was late once more.
std::vector<Verdict> judge_all(const std::vector<Task>& tasks, const Options& options) {
  std::vector<Verdict> verdicts(tasks.size());
  const auto show = [&](size_t i) {
    if (!options.json) print_row(*tasks[i].row, verdicts[i]);
  };
  if (!options.json) print_head();
  run_all(tasks, options.jobs, options.slack, [&](size_t i, Verdict v) {
    verdicts[i] = std::move(v);
    show(i);
  });
  for (size_t i = 0; i < tasks.size(); ++i) {
    for (int more = 0; more < kMoreTries && verdicts[i].may_be_tried_again(); ++more) {
      run_again(tasks[i], options, verdicts[i]);
      show(i);
    }
  }
  return verdicts;
}

// The closing lines, and the exit code.
int conclude(const std::vector<Verdict>& verdicts, const Options& options) {
  const auto count = [&](const auto& holds) {
    return static_cast<int>(std::count_if(verdicts.begin(), verdicts.end(), holds));
  };
  const int skipped = count([](const Verdict& v) { return !v.skipped.empty(); });
  const int passed = count([](const Verdict& v) { return v.passed(); });
  const int again = count([](const Verdict& v) { return !v.earlier.empty(); });
  const int failed = static_cast<int>(verdicts.size()) - passed - skipped;
  if (options.json) {
    Json rows = Json::array();
    for (const Verdict& v : verdicts) rows.push(to_json(v));
    Json out = Json::object();
    out.set("rows", std::move(rows)).set("passed", passed).set("failed", failed);
    out.set("skipped", skipped).set("run_again", again);
    out.set("gate", gate_json(sum_gate(verdicts)));
    std::printf("%s\n", out.dump().c_str());
  } else {
    print_gate(sum_gate(verdicts));
    std::printf("%d rows passed, %d failed, %d skipped, %d run again for being late\n", passed,
                failed, skipped, again);
  }
  return failed == 0 ? 0 : 1;
}

// A deliberate defect in one of the programs, the row that must find it, and what it says then.
struct Proof {
  const char* defect;
  const char* row;
  const char* finding;
};
constexpr Proof kProofs[] = {
    {"skips-finite-check", "road-zero", "expected UNAVAILABLE(non_finite)"},
    {"keeps-state", "road-nan-state", "outputs are not those of the model"},
    {"never-reaps", "worker-sigkill", "first came UNAVAILABLE(timeout)"},
    {"never-kills", "worker-sigstop", "not READY again"},
    {"wrong-reason", "worker-sigstop", "expected UNAVAILABLE(timeout)"},
    {"tells-late", "worker-sigstop", "state came after"},
    {"repeats-last-output", "worker-sigstop", "is valid and of no new frame"},
    {"no-heartbeats", "worker-sigstop", "no heartbeat"},
    {"gate-holds-on", "worker-sigstop", "the gate stayed in"},
};

// What only the first try shows: what is wrong fails the run at once, what is late is forgiven.
struct FirstTryProof {
  const char* defect;
  int exit_code;
  bool is_run_again;
};
constexpr FirstTryProof kFirstTryProofs[] = {{"repeats-last-output", 1, false},
                                             {"tells-late", 0, true}};

size_t prove_first_tries(const Row& row, const Options& options) {
  size_t proved = 0;
  for (const FirstTryProof& p : kFirstTryProofs) {
    const auto verdicts = judge_all({{&row, p.defect, true}}, options);
    const int exit_code = conclude(verdicts, options);
    const bool was_run_again = !verdicts[0].earlier.empty();
    const bool holds = exit_code == p.exit_code && was_run_again == p.is_run_again;
    proved += holds ? 1 : 0;
    std::printf("%s %s in the first try of %s: exit %d, %s\n", holds ? "found" : "NOT FOUND",
                p.defect, row.name, exit_code, was_run_again ? "run again" : "run once");
  }
  return proved;
}

void print_proof(const Proof& proof, bool is_found, const std::vector<std::string>& findings) {
  std::printf("%s %s in %s: %s\n", is_found ? "found" : "NOT FOUND", proof.defect, proof.row,
              findings.empty() ? "nothing" : findings.front().c_str());
  for (size_t k = 1; !is_found && k < findings.size(); ++k)
    std::printf("    %s\n", findings[k].c_str());
  std::fflush(stdout);
}

int run_proofs(const Options& options) {
  std::map<std::string, const Row*> rows;
  static const std::vector<Row> table = all_rows();
  for (const Row& r : table) rows[r.name] = &r;
  std::vector<Task> tasks;
  for (const Proof& p : kProofs) tasks.push_back({rows.at(p.row), p.defect});
  std::vector<bool> is_found(tasks.size());
  const auto look = [&](size_t i, const Verdict& v) {
    std::vector<std::string> all = v.findings;
    all.insert(all.end(), v.late.begin(), v.late.end());
    is_found[i] = std::any_of(all.begin(), all.end(), [&](const std::string& f) {
      return f.find(kProofs[i].finding) != std::string::npos;
    });
    print_proof(kProofs[i], is_found[i], all);
  };
  run_all(tasks, options.jobs, options.slack, look);
  for (size_t i = 0; i < tasks.size(); ++i) {
    for (int more = 0; more < kMoreTries && !is_found[i]; ++more)
      run_all({tasks[i]}, 1, options.slack, [&](size_t, const Verdict& v) { look(i, v); });
  }
  const auto found = static_cast<size_t>(std::count(is_found.begin(), is_found.end(), true)) +
                     prove_first_tries(*rows.at("worker-sigstop"), options);
  const size_t all = std::size(kProofs) + std::size(kFirstTryProofs);
  std::printf("fault-matrix: %zu of %zu deliberate defects found\n", found, all);
  return found == all ? 0 : 1;
}

int run(const Options& options) {
  static const std::vector<Row> table = all_rows();
  if (options.list) {
    for (const Row& r : table) std::printf("%-24s %s\n", r.name, r.injected);
    return 0;
  }
  std::vector<Task> tasks;
  for (const Row& r : table) {
    const auto& only = options.only;
    if (only.empty() || std::find(only.begin(), only.end(), r.name) != only.end())
      tasks.push_back({&r, ""});
  }
  if (tasks.empty()) {
    std::fprintf(stderr, "fault-matrix: no row is called %s (--list)\n", options.only[0].c_str());
    return 2;
  }
  if (options.only.empty()) make_bundles();
  for (const char* role : {"road", "cabin"}) e2e::tiny_bundle(role);
  if (options.self_proof) return run_proofs(options);
  return conclude(judge_all(tasks, options), options);
}

}  // namespace

std::vector<Row> all_rows() {
  std::vector<Row> out;
  for (const auto rows :
       {bundle_rows(), process_rows(), output_rows(), input_rows(), client_rows()})
    out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

}  // namespace modeld::faults

int main(int argc, char** argv) {
  CLI::App app("Every fault of the contract against the real programs, one row each");
  modeld::faults::Options options;
  app.add_option("--only", options.only, "only this row (may be given more than once)");
  app.add_flag("--json", options.json, "one JSON object on stdout and nothing else");
  app.add_flag("--list", options.list, "names of the rows");
  app.add_flag("--self-proof", options.self_proof, "deliberate defects, each must be found");
  app.add_option("--jobs", options.jobs, "rows side by side")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  app.add_option("--slack", options.slack, "multiplies every time bound")
      ->check(CLI::Range(1, 10))
      ->capture_default_str();
  app.footer(modeld::env_help());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return modeld::faults::run(options);
}
