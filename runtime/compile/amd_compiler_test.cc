// Code objects for AMD: what clang and lld make of plain kernels, and what is refused. The kernels
// are those of the hand-book's descriptor table; nothing runs.
#include <gtest/gtest.h>

#include <cstring>

#include "hal/base/bytes.h"

#include "runtime/compile/amd_code_object.h"
#include "runtime/compile/compile_cached.h"
#include "runtime/compile/compiler.h"

namespace modeld::compile {
namespace {

constexpr const char* kElementwise =
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void elementwise(__global float* d0, "
    "__global const float* d1, __global const float* d2, const int s3) {\n"
    "  const int i = (int)__builtin_amdgcn_workgroup_id_x() * 64 + "
    "(int)__builtin_amdgcn_workitem_id_x();\n"
    "  if (i < s3) d0[i] = d1[i] + d2[i];\n}\n";

constexpr const char* kReduce =
    "__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void reduce(__global float* d0, "
    "__global const float* d1) {\n"
    "  __local float l2[256];\n"
    "  const int i = (int)__builtin_amdgcn_workitem_id_x();\n"
    "  l2[i] = d1[(int)__builtin_amdgcn_workgroup_id_x() * 256 + i];\n"
    "  __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n"
    "  __builtin_amdgcn_s_barrier();\n"
    "  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
    "  float sum = 0;\n"
    "  for (int k = 0; k < 256; k++) sum += l2[k];\n"
    "  if (i == 0) d0[(int)__builtin_amdgcn_workgroup_id_x()] = sum;\n}\n";

hal::Target target(const char* arch) {
  return *hal::parse_target(std::string("amd:") + arch);
}

Result<CompiledImage> compile(const char* arch, const std::string& name, const std::string& text) {
  auto compiler = make_amd_compiler(target(arch));
  if (!compiler.ok()) return fail(std::move(compiler).error());
  const KernelSource source{name, text, false};
  auto images = (*compiler)->do_compile(std::span(&source, 1));
  if (!images.ok()) return fail(std::move(images).error());
  return std::move((*images)[0]);
}

TEST(AmdCompiler, DescriptorsOfTheHandbook) {
  struct Row {
    const char* arch;
    const char* name;
    const char* source;
    uint32_t group, kernarg;
  };
  const Row rows[] = {{"gfx1100", "elementwise", kElementwise, 0, 28},
                      {"gfx1201", "elementwise", kElementwise, 0, 28},
                      {"gfx1100", "reduce", kReduce, 1024, 16},
                      {"gfx1201", "reduce", kReduce, 1024, 16}};
  for (const Row& row : rows) {
    const auto image = compile(row.arch, row.name, row.source);
    ASSERT_TRUE(image.ok()) << image.error().what;
    const auto facts = parse_amd_code_object(image->code, row.arch, row.name);
    ASSERT_TRUE(facts.ok()) << facts.error().what;
    EXPECT_EQ(facts->group_segment, row.group) << row.arch << " " << row.name;
    EXPECT_EQ(facts->private_segment, 0u);
    EXPECT_EQ(facts->kernarg_size, row.kernarg) << row.arch << " " << row.name;
    EXPECT_EQ(facts->properties, 0x408) << "kernarg pointer, wave32";
    EXPECT_EQ(facts->rsrc1 & 0xf0000000U, 0x40000000U) << "memory ordered, CU mode";
    EXPECT_EQ(facts->entry_address % 256, 0u);
    EXPECT_EQ(image->entry_offset, facts->descriptor_offset);
  }
}

TEST(AmdCompiler, SameSourceGivesTheSameBytes) {
  const auto first = compile("gfx1100", "reduce", kReduce);
  const auto second = compile("gfx1100", "reduce", kReduce);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->code, second->code);
}

TEST(AmdCompiler, WhatNeedsALibraryIsAnError) {
  const std::string text =
      "float helper(float);\n__kernel void k(__global float* d0) { d0[0] = helper(d0[0]); }\n";
  const auto image = compile("gfx1100", "k", text);
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, Errc::kCompile);
  EXPECT_NE(image.error().what.find("kernel k:"), std::string::npos) << image.error().what;
  EXPECT_NE(image.error().what.find("symbol: helper"), std::string::npos) << image.error().what;
}

TEST(AmdCompiler, ErrorsNameTheKernel) {
  const auto image = compile("gfx1201", "broken", "__kernel void broken( {}\n");
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().what.find("kernel broken: clang-19: exit code 1: broken:1:"), 0u)
      << image.error().what;
  EXPECT_FALSE(compile("gfx1100", "no name", kReduce).ok());
  ClangOptions missing;
  missing.linker = "no-such-linker";
  EXPECT_EQ(make_amd_compiler(target("gfx1100"), missing).error().code, Errc::kNotFound);
  EXPECT_EQ(make_amd_compiler(*hal::parse_target("cpu")).error().code, Errc::kUnsupported);
}

TEST(AmdCompiler, IdentityHoldsArchToolsAndPrelude) {
  const auto a = make_amd_compiler(target("gfx1100"));
  const auto b = make_amd_compiler(target("gfx1201"));
  ClangOptions other;
  other.prelude = "#define X 1\n";
  const auto c = make_amd_compiler(target("gfx1100"), other);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_NE((*a)->identity(), (*b)->identity());
  EXPECT_NE((*a)->identity(), (*c)->identity());
  EXPECT_NE((*a)->identity().find("LLD"), std::string::npos) << (*a)->identity();
}

TEST(AmdCodeObject, DamagedObjectsAreRefused) {
  const auto image = compile("gfx1100", "elementwise", kElementwise);
  ASSERT_TRUE(image.ok()) << image.error().what;
  const auto parse = [&](const std::vector<std::byte>& bytes) {
    return parse_amd_code_object(bytes, "gfx1100", "elementwise");
  };
  ASSERT_TRUE(parse(image->code).ok());
  EXPECT_FALSE(parse_amd_code_object(image->code, "gfx1201", "elementwise").ok());
  EXPECT_FALSE(parse_amd_code_object(image->code, "gfx1100", "other").ok());
  for (size_t cut = 0; cut < image->code.size(); cut += 97) {
    EXPECT_FALSE(
        parse({image->code.begin(), image->code.begin() + static_cast<std::ptrdiff_t>(cut)}).ok())
        << cut;
  }
  // Every byte of the headers may be anything: no crash, and never a descriptor outside the file.
  for (size_t at = 0; at < 64; ++at) {
    std::vector<std::byte> bytes = image->code;
    bytes[at] = std::byte{0xff};
    const auto facts = parse(bytes);
    if (!facts.ok()) continue;
    EXPECT_LE(facts->descriptor_offset + 64, bytes.size());
  }
}

TEST(OpenClCompiler, ImagesAreSourcesThatMakeOneProgram) {
  const auto compiler = make_opencl_compiler({"// prelude\n", "-cl-std=CL1.2"});
  const KernelSource kernels[] = {{"a", "__kernel void a() {}\n", false},
                                  {"b", "__kernel void b() {}\n", true}};
  const auto images = compiler->do_compile(kernels);
  ASSERT_TRUE(images.ok()) << images.error().what;
  const auto text = [](const CompiledImage& i) {
    return std::string(reinterpret_cast<const char*>(i.code.data()), i.code.size());
  };
  EXPECT_EQ(text((*images)[0]), "// prelude\n__kernel void a() {}\n");
  EXPECT_EQ(text((*images)[1]),
            "// prelude\n#pragma OPENCL FP_CONTRACT OFF\n__kernel void b() {}\n"
            "#pragma OPENCL FP_CONTRACT ON\n");
  EXPECT_NE(make_opencl_compiler({"x", ""})->identity(),
            make_opencl_compiler({"y", ""})->identity());
}

}  // namespace
}  // namespace modeld::compile
