// Memory planning on whole models: the reference models in every size and the public ones. How
// close the arenas come to the lower bound, and that sharing memory changes no number: poisoned
// arenas, and guard bytes around every buffer. Builds what it runs; full models take a while, so it
// runs with the end-to-end tests.
#include <algorithm>
#include <fstream>
#include <ostream>
#include <tuple>

#include "hal/backends.h"
#include "hal/base/bytes.h"
#include "hal/base/text.h"

#include "runtime/schedule/schedule.h"

#include "models/reference/reference.h"
#include "models/tools/import_model.h"
#include "models/tools/session.h"

#include "selftest/e2e/harness.h"
#include "selftest/testing/exact_arena.h"

namespace modeld::e2e {
namespace {

struct Case {
  const char* name;                   // "road_tiny_f32", or a folder of the public models
  int64_t sum, tlsf, planned, bound;  // bytes of entry run's compute lane
  int guarded_runs;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

// Pinned. When a change of the scheduler moves a row, the test prints the new one.
constexpr Case kCases[] = {
    {"road_tiny_f32", 75264, 53760, 53248, 53248, 10000},
    {"road_tiny_f16", 25088, 15360, 15360, 15360, 10000},
    {"road_small_f32", 4585216, 1573376, 1573376, 1573376, 100},
    {"road_small_f16", 4293120, 1573120, 1573120, 1573120, 100},
    {"road_full_f32", 53138176, 7866368, 7079936, 7079936, 5},
    {"road_full_f16", 46523136, 7472128, 6685696, 6685696, 5},
    {"cabin_tiny_f32", 15616, 10496, 10496, 10496, 10000},
    {"cabin_tiny_f16", 15616, 10496, 10496, 10496, 10000},
    {"cabin_small_f32", 6456064, 1382912, 1166592, 1166592, 100},
    {"cabin_small_f16", 5523456, 1188352, 1101824, 1101824, 100},
    {"cabin_full_f32", 70344192, 13824000, 12441600, 12441600, 5},
    {"cabin_full_f16", 59182592, 12441600, 11750400, 11750400, 5},
    {"cabin_standin_f32", 158352640, 33177600, 27648000, 27648000, 5},
    {"policy_standin_f16", 1024256, 309248, 281600, 281600, 20},
    {"squeezenet_random", 11007488, 3928576, 3928576, 3928576, 20},
    {"ppocr4_det", 30148352, 6758400, 5886208, 5886208, 5},
    {"ppocr4_rec", 23050496, 2764800, 1966080, 1966080, 5},
    {"ppocr2_cls", 2283520, 357888, 331776, 331776, 100},
};

struct Source {
  std::string onnx;
  bundle::Role role = bundle::Role::kGeneric;
  std::map<std::string, std::vector<int64_t>> shapes;
};

// `--shape NAME=...` of a public model, in the README beside the models.
Status read_shapes(const std::string& models, const std::string& name, Source* source) {
  std::ifstream readme(join_path(models, "README.md"));
  for (std::string line; std::getline(readme, line);) {
    const size_t at = line.find("`--shape ");
    if (line.rfind("| " + name + " |", 0) != 0 || at == std::string::npos) continue;
    const std::string arg = line.substr(at + 9, line.find('`', at + 9) - at - 9);
    const size_t equals = arg.find('=');
    ASSIGN_OR_RETURN(source->shapes[arg.substr(0, equals)], parse_dims(arg.substr(equals + 1)));
  }
  return {};
}

// kNotFound: a public model that is not on this machine.
Result<Source> source_of(const std::string& name) {
  Source out;
  const std::vector<std::string> words = split(name, '_');
  const auto role = reference::parse_role(words[0]);
  const auto size = reference::parse_size(words[1]);
  if (role.ok() && size.ok()) {
    reference::ReferenceOptions options;
    options.role = *role;
    options.size = *size;
    ASSIGN_OR_RETURN(options.dtype, reference::parse_dtype(words[2]));
    out.onnx = join_path(scratch_dir(), name + ".onnx");
    ASSIGN_OR_RETURN(out.role, bundle::parse_role(words[0]));
    const auto written = reference::write_reference(options, out.onnx);
    if (!written.ok()) return fail(Error(written.error()));
    return out;
  }
  const std::string models = join_path(shared_dir(), "models");
  out.onnx = join_path(join_path(models, name), "model.onnx");
  if (!file_exists(out.onnx)) return fail(Errc::kNotFound, out.onnx);
  RETURN_IF_ERROR(read_shapes(models, name, &out));
  return out;
}

// The model as a graph, its entries and its weights.
struct Model {
  std::unique_ptr<ir::Graph> graph = std::make_unique<ir::Graph>();
  tools::BuildGraph build;
  tensor::WeightStore weights;
};

Result<Model> open_model(const std::string& name) {
  ASSIGN_OR_RETURN(const Source source, source_of(name));
  Model out;
  ASSIGN_OR_RETURN(tools::ImportedFile file,
                   tools::import_model(*out.graph, source.onnx, source.shapes));
  ASSIGN_OR_RETURN(out.build, tools::make_build_graph(*out.graph, std::move(file.source),
                                                      source.role, {{1928, 1208}}));
  out.weights = std::move(file.weights);
  return out;
}

class MemoryPlanModels : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto opened = open_model(GetParam().name);
    if (!opened.ok() && opened.error().code == Errc::kNotFound)
      GTEST_SKIP() << "SKIPPED-SHARED no folder " << GetParam().name << " of public models here";
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    model_ = std::move(*opened);
  }
  Result<schedule::MemoryPlan> plan_run(bool offline) {
    ir::NodeVec outputs;
    for (const exec::Binding& b : model_.build.entries[0].outputs) outputs.push_back(b.node);
    schedule::ScheduleOptions options;
    options.best_fit = offline;
    ASSIGN_OR_RETURN(schedule::Schedule s,
                     schedule::make_schedule(*model_.graph, outputs, options));
    return std::move(s.plan);
  }

  Model model_;
};

// Lifetimes of a lane, back from its plan.
std::vector<schedule::Lifetime> lane_of(const schedule::MemoryPlan& plan, int64_t lane) {
  std::vector<schedule::Lifetime> out;
  for (const schedule::BufferPlace& p : plan.places) {
    if (p.lane != lane) continue;
    const auto size = static_cast<schedule::Bytes>(p.size);
    out.push_back(
        {out.size(), p.first, p.last, p.free, 0,
         (size + schedule::kPlanBlock - 1) / schedule::kPlanBlock * schedule::kPlanBlock});
  }
  return out;
}

TEST_P(MemoryPlanModels, ArenaIsWithinFivePercentOfTheBoundOrProvenSmallest) {
  const Case& c = GetParam();
  const auto tlsf = plan_run(false), offline = plan_run(true);
  ASSERT_TRUE(tlsf.ok() && offline.ok());
  ASSERT_EQ(offline->lanes.size(), 1U) << "one device, no copies";
  const schedule::MemoryLane& lane = offline->lanes[0];
  const std::string row = strf(
      "{\"%s\", %lld, %lld, %lld, %lld, %d}", c.name, static_cast<long long>(lane.sum_size),
      static_cast<long long>(tlsf->lanes[0].arena_size), static_cast<long long>(lane.arena_size),
      static_cast<long long>(lane.lower_bound), c.guarded_runs);
  EXPECT_LE(lane.arena_size, tlsf->lanes[0].arena_size) << row;
  EXPECT_GE(lane.arena_size, lane.lower_bound) << row;
  if (lane.arena_size * 100 > lane.lower_bound * 105) {
    const auto core = testing::prove_optimal(lane_of(*offline, 0), lane.arena_size, 100'000);
    EXPECT_TRUE(core.has_value()) << row << ": neither near the bound nor proven smallest";
  }
  EXPECT_EQ(std::tie(c.sum, c.tlsf, c.planned, c.bound),
            std::tie(lane.sum_size, tlsf->lanes[0].arena_size, lane.arena_size, lane.lower_bound))
      << "the schedule or the planner changed: " << row;
}

// ---- replay ----

constexpr int64_t kLimitMs = 120'000;

// Buffers moved apart: none shares memory, and guard bytes lie before and behind each.
struct Guarded {
  exec::Plan plan;
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> views;  // per arena, [from, to), sorted
};

Guarded guard_buffers(exec::Plan plan) {
  constexpr uint64_t kGuard = 256;
  Guarded out;
  out.views.resize(plan.arenas.size());
  for (exec::ArenaRow& a : plan.arenas) a.size = kGuard;
  for (exec::BufferRow& b : plan.buffers) {
    if (b.kind != exec::BufferRow::Kind::kArena) continue;
    uint64_t& end = plan.arenas[b.index].size;
    b.offset = end;
    out.views[b.index].emplace_back(end, end + b.size);
    end = align_up(end + b.size, 256) + kGuard;
  }
  out.plan = std::move(plan);
  return out;
}

class MemoryPlanReplay : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto opened = open_model(GetParam().name);
    if (!opened.ok() && opened.error().code == Errc::kNotFound)
      GTEST_SKIP() << "SKIPPED-SHARED no folder " << GetParam().name << " of public models here";
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    manifest_ = std::move(opened->build.manifest);
    const auto target = hal::parse_target("cpu");
    auto plan = exec::compile_plan(*opened->graph, opened->build.entries, opened->weights,
                                   exec::default_compile_options(*target));
    ASSERT_TRUE(plan.ok()) << plan.error().what;
    manifest_.plan = std::move(*plan);
    auto device = hal::open_device("cpu");
    ASSERT_TRUE(device.ok());
    device_ = std::move(*device);
  }
  // Outputs of three frames, states committed between them; `before` runs ahead of each.
  template <class Before>
  std::vector<tools::Bytes> frames(exec::LoadedPlan& loaded,
                                   const std::string& entry,
                                   Before before) {
    std::vector<tools::Bytes> out;
    auto session = tools::Session::create(manifest_, entry, loaded);
    EXPECT_TRUE(session.ok());
    if (!session.ok()) return out;
    for (uint64_t frame = 1; frame <= 3; ++frame) {
      before();
      EXPECT_TRUE((*session)->set_seeded(frame).ok());
      const Status ran = (*session)->run(Deadline::in_ms(kLimitMs));
      EXPECT_TRUE(ran.ok()) << ran.error().what;
      for (size_t i = 0; i < (*session)->entry().outputs.size(); ++i) {
        auto bytes = (*session)->output(i);
        EXPECT_TRUE(bytes.ok());
        if (bytes.ok()) out.push_back(std::move(*bytes));
      }
      (*session)->commit();
    }
    return out;
  }
  std::unique_ptr<exec::LoadedPlan> load(const exec::Plan& plan) {
    auto loaded = exec::LoadedPlan::load(plan, *device_);
    EXPECT_TRUE(loaded.ok()) << loaded.error().what;
    return loaded.ok() ? std::move(*loaded) : nullptr;
  }
  static void fill(const exec::LoadedPlan& loaded, std::byte value) {
    for (const hal::Buffer& arena : loaded.arenas()) {
      ASSERT_FALSE(arena.cpu().empty());
      std::fill(arena.cpu().begin(), arena.cpu().end(), value);
    }
  }

  bundle::Manifest manifest_;
  std::unique_ptr<hal::Device> device_;
};

// Each call's arena arguments lie in a use that is alive then; uses alive together share no byte.
void expect_sound_uses(const exec::Plan& plan) {
  for (uint32_t e = 0; e < plan.entries.size(); ++e)
    for (uint32_t c = 0; c < plan.entries[e].calls.size(); ++c)
      for (const exec::ArgRef& arg : plan.entries[e].calls[c].args) {
        if (arg.kind != exec::ArgRef::Kind::kBuffer) continue;
        const exec::BufferRow& row = plan.buffers[arg.index];
        if (row.kind != exec::BufferRow::Kind::kArena) continue;
        const auto uses = [&](const exec::ArenaUse& u) {
          return u.entry == e && u.arena == row.index && u.offset == row.offset &&
                 u.size == row.size && u.first <= c && c <= u.last;
        };
        ASSERT_EQ(std::count_if(plan.arena_uses.begin(), plan.arena_uses.end(), uses), 1)
            << exec::call_text(plan, plan.entries[e], c);
      }
  for (const exec::ArenaUse& a : plan.arena_uses)
    for (const exec::ArenaUse& b : plan.arena_uses) {
      if (&a == &b || a.entry != b.entry || a.arena != b.arena) continue;
      const bool is_together = a.first < b.free && b.first < a.free;
      ASSERT_FALSE(is_together && a.offset < b.offset + b.size && b.offset < a.offset + a.size)
          << "calls " << a.first << " and " << b.first;
    }
}

void expect_guards(const Guarded& guarded, const exec::LoadedPlan& loaded) {
  for (size_t a = 0; a < guarded.views.size(); ++a) {
    const auto bytes = loaded.arenas()[a].cpu();
    auto views = guarded.views[a];
    views.emplace_back(guarded.plan.arenas[a].size, guarded.plan.arenas[a].size);
    uint64_t at = 0;
    for (const auto& [from, to] : views) {
      for (; at < from; ++at)
        ASSERT_EQ(bytes[at], std::byte{0xa5}) << "arena " << a << " at " << at;
      at = to;
    }
  }
}

// One test, because compiling is what takes long.
TEST_P(MemoryPlanReplay, PoisonedSharedAndGuardedMemoryGiveTheSameBits) {
  expect_sound_uses(manifest_.plan);
  const Guarded guarded = guard_buffers(manifest_.plan);
  const auto clean = load(manifest_.plan), poisoned = load(manifest_.plan),
             apart = load(guarded.plan);
  ASSERT_TRUE(clean && poisoned && apart);
  fill(*apart, std::byte{0xa5});
  for (const exec::Entry& e : manifest_.plan.entries) {
    const std::vector<tools::Bytes> want = frames(*clean, e.name, [] {});
    ASSERT_FALSE(want.empty());
    // Bytes 0xff are NaN in every float type.
    EXPECT_TRUE(frames(*poisoned, e.name, [&] { fill(*poisoned, std::byte{0xff}); }) == want)
        << e.name << ": something reads memory that nothing wrote";
    EXPECT_TRUE(frames(*apart, e.name, [] {}) == want)
        << e.name << ": two buffers that share memory are alive together";
  }
  auto session = tools::Session::create(manifest_, "run", *apart);
  ASSERT_TRUE(session.ok());
  for (int run = 0; run < GetParam().guarded_runs; ++run) {
    ASSERT_TRUE((*session)->run(Deadline::in_ms(kLimitMs)).ok());
    (*session)->commit();
  }
  expect_guards(guarded, *apart);
}

const auto kName = [](const auto& test) { return std::string(test.param.name); };
INSTANTIATE_TEST_SUITE_P(All, MemoryPlanModels, ::testing::ValuesIn(kCases), kName);
INSTANTIATE_TEST_SUITE_P(All, MemoryPlanReplay, ::testing::ValuesIn(kCases), kName);

}  // namespace
}  // namespace modeld::e2e
