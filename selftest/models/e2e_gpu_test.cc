// Bundles for GPUs, made where there is none: OpenCL bundles are one program, whose calls run
// through the OpenCL driver that is here and must give the bundle's golden outputs; AMD bundles
// hold one whole code object per kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "hal/base/fs.h"

#include "runtime/compile/amd_code_object.h"
#include "runtime/render/render_opencl.h"

#include "models/bundle/bundle_reader.h"

#include "selftest/e2e/harness.h"
#include "selftest/testing/opencl_lab.h"

namespace modeld::e2e {
namespace {

using bundle::Bundle;
using bundle::SectionKind;
using testing::OpenClArg;
using testing::OpenClLab;

std::unique_ptr<Bundle> build(const std::string& onnx,
                              const std::string& target,
                              const std::string& role,
                              const std::string& name,
                              const std::string& shape = {}) {
  const std::string path = join_path(scratch_dir(), name + ".bundle");
  std::vector<std::string> command = {program("modelc"), "build", onnx, "--target", target,
                                      "--role",          role,    "-o", path};
  if (!shape.empty()) command.insert(command.end(), {"--shape", shape});
  const ProcResult r = run(command, {}, 600'000);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  auto opened = Bundle::open(path);
  EXPECT_TRUE(opened.ok()) << opened.error().what;
  return opened.ok() ? std::move(*opened) : nullptr;
}

// The images of all kernels in a row; zeros between them are padding.
std::string program_text(const Bundle& b) {
  const auto section = b.section(SectionKind::kImages);
  std::string out;
  for (const std::byte c : section) {
    if (c != std::byte{0}) out += static_cast<char>(c);
  }
  return out;
}

// Runs one entry of a bundle on host memory, call by call.
class Replay {
 public:
  Replay(const Bundle& b, const exec::Entry& entry) : plan_(b.manifest().plan), entry_(entry) {
    const auto weights = b.section(SectionKind::kWeights);
    weights_.assign(weights.begin(), weights.end());
    for (const exec::ArenaRow& a : plan_.arenas) arenas_.emplace_back(a.size);
    for (const exec::TensorInfo& t : entry.inputs) slots_.emplace_back(t.bytes);
    for (const exec::TensorInfo& t : entry.outputs) slots_.emplace_back(t.bytes);
  }

  std::vector<std::byte>& slot(uint32_t i) { return slots_[i]; }

  Status run(OpenClLab& lab) {
    for (size_t i = 0; i < entry_.calls.size(); ++i) {
      Status s = call(lab, entry_.calls[i]);
      if (!s.ok()) return fail(Error(s.error()).with(exec::call_text(plan_, entry_, i)));
    }
    return {};
  }

 private:
  const exec::Plan& plan_;
  const exec::Entry& entry_;
  std::vector<std::byte> weights_;
  std::vector<std::vector<std::byte>> arenas_, slots_;

  OpenClArg argument(const exec::ArgRef& ref) {
    OpenClArg a;
    switch (ref.kind) {
      case exec::ArgRef::Kind::kBuffer: {
        const exec::BufferRow& row = plan_.buffers[ref.index];
        const bool weight = row.kind == exec::BufferRow::Kind::kWeight;
        std::vector<std::byte>& home = weight ? weights_ : arenas_[row.index];
        const uint64_t start = (weight ? plan_.weights[row.index].offset : 0) + row.offset;
        a.bytes = std::span(home).subspan(start + ref.offset, row.size - ref.offset);
        break;
      }
      case exec::ArgRef::Kind::kSlot:
        a.bytes = std::span(slots_[ref.index]).subspan(ref.offset);
        break;
      default:
        a.kind = OpenClArg::Kind::kScalar;
        a.scalar = static_cast<int32_t>(ref.offset);
    }
    return a;
  }

  Status call(OpenClLab& lab, const exec::CallRow& c) {
    std::vector<OpenClArg> args;
    for (const exec::ArgRef& ref : c.args) args.push_back(argument(ref));
    if (c.kind == exec::CallRow::Kind::kCopy) {
      std::memcpy(args[0].bytes.data(), args[1].bytes.data(), c.copy_bytes);
      return {};
    }
    const exec::ProgramRow& p = plan_.programs[c.program];
    int64_t groups[3], items[3];
    for (size_t d = 0; d < 3; ++d) {
      groups[d] = static_cast<int64_t>(p.groups[d]);
      items[d] = static_cast<int64_t>(p.local[d]);
    }
    return lab.run(p.name, args, groups, items);
  }
};

double number_at(const exec::TensorInfo& t, std::span<const std::byte> bytes, size_t i) {
  if (t.dtype == ir::DType::kF32) {
    float v = 0;
    std::memcpy(&v, bytes.data() + 4 * i, 4);
    return static_cast<double>(v);
  }
  uint16_t half = 0;
  std::memcpy(&half, bytes.data() + 2 * i, 2);
  return static_cast<double>(ir::f16_bits_to_f32(half));
}

void expect_golden(const Bundle& b,
                   const bundle::GoldenCase& row,
                   const bundle::GoldenTensor& t,
                   const exec::TensorInfo& info,
                   std::span<const std::byte> got) {
  ASSERT_TRUE(info.dtype == ir::DType::kF32 || info.dtype == ir::DType::kF16) << info.name;
  const auto want = b.golden(t);
  ASSERT_EQ(got.size(), want.size()) << info.name;
  const size_t count = want.size() / (info.dtype == ir::DType::kF32 ? 4 : 2);
  double worst = 0, scale = 0;
  for (size_t i = 0; i < count; ++i) {
    const double w = number_at(info, want, i);
    worst = std::max(worst, std::fabs(number_at(info, got, i) - w));
    scale = std::max(scale, std::fabs(w));
  }
  EXPECT_GT(scale, 0) << info.name;
  EXPECT_LE(worst, row.tolerance * scale) << info.name;
}

// Builds for `cl`, builds all kernels as one program, runs entry run and compares every output.
void runs_through_opencl(const std::string& onnx,
                         const std::string& role,
                         const std::string& name,
                         const std::string& shape = {}) {
  auto lab = testing::open_opencl_lab();
  if (!lab.ok()) GTEST_SKIP() << lab.error().what;
  const auto b = build(onnx, "cl", role, name, shape);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->manifest().self_check, bundle::SelfCheck::kNone);
  const Status built = (*lab)->build(program_text(*b), render::kOpenClBuildOptions);
  ASSERT_TRUE(built.ok()) << built.error().what;
  ASSERT_FALSE(b->manifest().golden.empty());
  const bundle::GoldenCase& row = b->manifest().golden[0];
  const exec::Entry& entry = b->manifest().plan.entries[row.entry];
  Replay replay(*b, entry);
  for (const bundle::GoldenTensor& t : row.tensors) {
    if (t.is_output) continue;
    const auto bytes = b->golden(t);
    replay.slot(entry.inputs[t.tensor].slot).assign(bytes.begin(), bytes.end());
  }
  const Status ran = replay.run(**lab);
  ASSERT_TRUE(ran.ok()) << ran.error().what;
  for (const bundle::GoldenTensor& t : row.tensors) {
    if (!t.is_output) continue;
    const exec::TensorInfo& info = entry.outputs[t.tensor];
    expect_golden(*b, row, t, info, replay.slot(info.slot));
  }
}

std::string shared_model(const std::string& name) {
  const std::string dir = shared_dir();
  const std::string path = join_path(dir, "models/" + name + "/model.onnx");
  return !dir.empty() && read_text(path).ok() ? path : "";
}

TEST(OpenClBundle, TinyCabinGivesItsGoldenOutputs) {
  runs_through_opencl(tiny_onnx("cabin"), "cabin", "cl-cabin");
}

TEST(OpenClBundle, TinyRoadGivesItsGoldenOutputs) {
  runs_through_opencl(tiny_onnx("road"), "road", "cl-road");
}

TEST(OpenClBundle, SqueezenetGivesItsGoldenOutputs) {
  const std::string onnx = shared_model("squeezenet_random");
  if (onnx.empty()) GTEST_SKIP() << "MODELD_SHARED has no squeezenet_random";
  runs_through_opencl(onnx, "generic", "cl-squeezenet");
}

TEST(OpenClBundle, PpOcrGivesItsGoldenOutputs) {
  const std::string onnx = shared_model("ppocr2_cls");
  if (onnx.empty()) GTEST_SKIP() << "MODELD_SHARED has no ppocr2_cls";
  runs_through_opencl(onnx, "generic", "cl-ppocr", "x=1x3x48x192");
}

TEST(OpenClBundle, APolicyInHalvesGivesItsGoldenOutputs) {
  const std::string onnx = shared_model("policy_standin_f16");
  if (onnx.empty()) GTEST_SKIP() << "MODELD_SHARED has no policy_standin_f16";
  runs_through_opencl(onnx, "generic", "cl-policy");
}

TEST(OpenClBundle, SameModelGivesTheSameBytes) {
  const auto first = build(tiny_onnx("cabin"), "cl", "cabin", "cl-first");
  const auto second = build(tiny_onnx("cabin"), "cl", "cabin", "cl-second");
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(program_text(*first), program_text(*second));
}

// Work groups and local memory must be what the launch and the check of opts assumed.
void holds_code_objects(const std::string& onnx, const std::string& role, const std::string& arch) {
  const auto b = build(onnx, "amd:" + arch, role, "amd-" + role + arch);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->manifest().self_check, bundle::SelfCheck::kNone);
  const exec::Plan& plan = b->manifest().plan;
  ASSERT_FALSE(plan.programs.empty());
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const exec::ProgramRow& p = plan.programs[i];
    const auto facts = compile::parse_amd_code_object(b->image(i), arch, p.name);
    ASSERT_TRUE(facts.ok()) << facts.error().what;
    EXPECT_EQ(facts->descriptor_offset, p.image.entry_offset);
    EXPECT_EQ(facts->kernarg_size, 8 * p.buffer_args + 4 * p.scalar_args) << p.name;
    EXPECT_LE(facts->group_segment, 32768u) << p.name;
  }
}

TEST(AmdBundle, HoldsOneCodeObjectPerKernel) {
  holds_code_objects(tiny_onnx("cabin"), "cabin", "gfx1100");
  holds_code_objects(tiny_onnx("road"), "road", "gfx1201");
}

TEST(AmdBundle, SqueezenetCompiles) {
  const std::string onnx = shared_model("squeezenet_random");
  if (onnx.empty()) GTEST_SKIP() << "MODELD_SHARED has no squeezenet_random";
  holds_code_objects(onnx, "generic", "gfx1100");
}

// Products of halves go to the matrix units of both generations, and the code objects are there.
TEST(AmdBundle, HalvesUseTheMatrixUnits) {
  const std::string onnx = join_path(scratch_dir(), "road-small-f16.onnx");
  ASSERT_EQ(
      modelc({"reference", "road", "--size", "small", "--dtype", "f16", "-o", onnx}).exit_code, 0);
  for (const std::string arch : {"gfx1100", "gfx1201"}) {
    holds_code_objects(onnx, "road", arch);
    const auto b = Bundle::open(join_path(scratch_dir(), "amd-road" + arch + ".bundle"));
    ASSERT_TRUE(b.ok()) << b.error().what;
    size_t units = 0;
    for (const exec::ProgramRow& p : (*b)->manifest().plan.programs)
      units += p.applied_opts.starts_with("[TC(") ? 1 : 0;
    EXPECT_GT(units, 0U) << arch;
  }
}

TEST(GpuTargets, HaveOneRendererEach) {
  const ProcResult r = modelc({"build", tiny_onnx("cabin"), "--target", "cl", "--renderer", "c",
                               "-o", join_path(scratch_dir(), "no.bundle")});
  EXPECT_TRUE(is_one_clear_line(r, 2));
}

}  // namespace
}  // namespace modeld::e2e
