#include "runtime/compile/image_cut.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <random>

#include "hal/base/bytes.h"
#include "hal/base/proc.h"

#include "runtime/compile/reloc.h"

namespace modeld::compile {
namespace {

std::string object_of(const std::string& source, std::vector<std::string> extra) {
  ProcSpec spec;
  spec.argv = {
      "clang-19",        "-x",    "c", "-O1", "-ffreestanding", "-fPIC", "-ffunction-sections",
      "-fdata-sections", "-Wa,-L"};
  spec.argv.insert(spec.argv.end(), extra.begin(), extra.end());
  for (const char* f : {"-c", "-o", "-", "-"}) spec.argv.emplace_back(f);
  spec.stdin_text = source;
  const auto r = run_process(spec);
  EXPECT_TRUE(r.ok() && r->succeeded()) << (r.ok() ? r->err : r.error().what);
  return r.ok() ? r->out : std::string();
}

const char* const kSource =
    "__attribute__((noinline)) static double twice(double x) { return x * 2.5 + 7.25; }\n"
    "static const int table[40] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};\n"
    "void k(const unsigned long long* w, unsigned c) {\n"
    "  *(double*)w[0] = twice(*(double*)w[0]) * 1.125;\n  *(int*)w[1] = table[c];\n}\n";

const std::vector<std::string> kX86 = {"--target=x86_64-none-unknown-elf"};
const std::vector<std::string> kArmTiny = {"--target=aarch64-none-unknown-elf", "-mcmodel=tiny"};
const std::vector<std::string> kArmSmall = {"--target=aarch64-none-unknown-elf"};

TEST(ImageCut, TakesHelpersAndConstantsOfEachMachine) {
  for (const auto& flags : {kX86, kArmTiny, kArmSmall}) {
    const std::string bytes = object_of(kSource, flags);
    const auto object = ElfObject::parse(bytes_of(bytes));
    ASSERT_TRUE(object.ok()) << object.error().what;
    const auto image = cut_image(*object, "k");
    ASSERT_TRUE(image.ok()) << image.error().what;
    EXPECT_GT(image->code.size(), 160u) << "text of two functions and 160 bytes of table";
    EXPECT_EQ(image->alignment, &flags == &kArmSmall || flags == kArmSmall ? 4096u : 64u);
  }
}

// 64-byte vectors and half precision scalars have no merged section; their sizes are not recorded.
TEST(ImageCut, ConstantsOfTheSharedSectionGetWindowsOfTheirOwn) {
  const std::string source =
      "typedef float v16 __attribute__((vector_size(64)));\n"
      "void a(const unsigned long long* w, unsigned c) {\n"
      "  *(v16*)w[0] = *(v16*)w[0] * (v16){1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 77};\n}\n"
      "void b(const unsigned long long* w, unsigned c) {\n"
      "  *(v16*)w[0] = *(v16*)w[0] + (v16){5, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 0};\n}\n";
  const std::string bytes = object_of(source, {"--target=x86_64-none-unknown-elf",
                                               "-march=x86-64-v4", "-mprefer-vector-width=512"});
  const auto object = ElfObject::parse(bytes_of(bytes));
  ASSERT_TRUE(object.ok());
  for (const auto& [name, first] : {std::pair{"a", 1.0f}, std::pair{"b", 5.0f}}) {
    const auto image = cut_image(*object, name);
    ASSERT_TRUE(image.ok()) << image.error().what;
    ASSERT_EQ(image->code.size(), 128u);
    float value = 0;
    std::memcpy(&value, image->code.data() + 64, 4);
    EXPECT_EQ(value, first);
  }
}

// Constants of one byte and of two lie next to each other there. vpinsrw has an immediate behind
// its displacement, so its relocation alone fits the label one byte before the constant as well.
TEST(ImageCut, ConstantsOneByteApartAreToldApart) {
  std::string source =
      "typedef unsigned char b32 __attribute__((vector_size(32)));\n"
      "void half(const unsigned long long* w, unsigned c) {\n"
      "  for (int i = 0; i < 5; ++i) ((_Float16*)w[0])[i] = 1;\n}\n";
  const std::vector<std::string> flags = {"--target=x86_64-none-unknown-elf", "-march=x86-64-v3",
                                          "-O2"};
  const std::string alone_bytes = object_of(source, flags);
  const auto alone_object = ElfObject::parse(bytes_of(alone_bytes));
  ASSERT_TRUE(alone_object.ok());
  const auto alone = cut_image(*alone_object, "half");
  ASSERT_TRUE(alone.ok()) << alone.error().what;
  for (int bytes = 1; bytes <= 3; ++bytes) {
    source = strf(
                 "typedef unsigned char b32 __attribute__((vector_size(32)));\n"
                 "void byte%d(const unsigned long long* w, unsigned c) {\n"
                 "  *(b32*)w[0] = *(b32*)w[0] * (b32)(*(b32*)w[1] > 3) + 7;\n}\n",
                 bytes) +
             source;
    const std::string together_bytes = object_of(source, flags);
    const auto object = ElfObject::parse(bytes_of(together_bytes));
    ASSERT_TRUE(object.ok());
    const auto together = cut_image(*object, "half");
    ASSERT_TRUE(together.ok()) << together.error().what;
    EXPECT_TRUE(alone->code == together->code) << bytes << " functions with a constant of a byte";
  }
}

TEST(ImageCut, FunctionThatIsNotThereIsNamed) {
  const std::string bytes = object_of(kSource, kX86);
  const auto object = ElfObject::parse(bytes_of(bytes));
  ASSERT_TRUE(object.ok());
  const auto image = cut_image(*object, "missing");
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().what, "kernel missing: the object defines no such function");
}

TEST(ImageCut, TableOfAddressesIsRefused) {
  const std::string bytes = object_of(
      "static const int a = 1, b = 2;\nstatic const int* const t[2] = {&a, &b};\n"
      "void k(const unsigned long long* w, unsigned c) { *(int*)w[0] = *t[c]; }\n",
      kX86);
  const auto object = ElfObject::parse(bytes_of(bytes));
  ASSERT_TRUE(object.ok());
  const auto image = cut_image(*object, "k");
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, Errc::kCompile);
}

TEST(ImageCut, GlobalOffsetTableIsRefusedByType) {
  const std::string bytes = object_of(
      "extern int elsewhere;\nvoid k(const unsigned long long* w, unsigned c) { *(int*)w[0] = "
      "elsewhere; }\n",
      kX86);
  const auto object = ElfObject::parse(bytes_of(bytes));
  ASSERT_TRUE(object.ok());
  const auto image = cut_image(*object, "k");
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.error().what.find("R_X86_64_REX_GOTPCRELX"), std::string::npos)
      << image.error().what;
  EXPECT_NE(image.error().what.find("elsewhere"), std::string::npos);
}

// Damaged objects give an error or an image, never a crash (sanitizer builds make this sharp).
TEST(ImageCut, DamagedObjectsAreHandled) {
  const std::string good = object_of(kSource, kX86);
  for (size_t n = 0; n < good.size(); n += 7) {
    const auto object = ElfObject::parse(bytes_of(std::string_view(good).substr(0, n)));
    EXPECT_FALSE(object.ok()) << n;
  }
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bad = good;
    for (int flips = 0; flips < 3; ++flips)
      bad[random() % bad.size()] = static_cast<char>(random());
    const auto object = ElfObject::parse(bytes_of(bad));
    if (!object.ok() || !cut_image(*object, "k").ok()) ++refused;
  }
  EXPECT_GT(refused, 200);
}

uint32_t word_at(const std::vector<std::byte>& bytes) {
  uint32_t w = 0;
  std::memcpy(&w, bytes.data(), 4);
  return w;
}

TEST(Reloc, ArmInstructionFields) {
  std::vector<std::byte> image(8192);
  const auto set = [&](uint32_t w) { std::memcpy(image.data(), &w, 4); };
  set(0x10000000);  // adr x0, .
  ASSERT_TRUE(apply_reloc(EM_AARCH64, R_AARCH64_ADR_PREL_LO21, image, 0, 0x1235).ok());
  EXPECT_EQ(word_at(image), 0x30000000u | (0x48du << 5));
  set(0x90000000);  // adrp x0, 0
  ASSERT_TRUE(apply_reloc(EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, image, 0, 0x1235).ok());
  EXPECT_EQ(word_at(image), 0xb0000000u);
  set(0x91000000);  // add x0, x0, #0
  ASSERT_TRUE(apply_reloc(EM_AARCH64, R_AARCH64_ADD_ABS_LO12_NC, image, 0, 0x1235).ok());
  EXPECT_EQ(word_at(image), 0x91000000u | (0x235u << 10));
  set(0x3dc00000);  // ldr q0, [x0]
  ASSERT_TRUE(apply_reloc(EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, image, 0, 0x1230).ok());
  EXPECT_EQ(word_at(image), 0x3dc00000u | (0x23u << 10));
  EXPECT_FALSE(apply_reloc(EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, image, 0, 0x1238).ok());
  set(0x94000000);  // bl .
  ASSERT_TRUE(apply_reloc(EM_AARCH64, R_AARCH64_CALL26, image, 0, 0x40).ok());
  EXPECT_EQ(word_at(image), 0x94000010u);
  EXPECT_FALSE(apply_reloc(EM_AARCH64, R_AARCH64_CALL26, image, 0, int64_t{1} << 28).ok());
}

TEST(Reloc, OutOfRangeAndOutOfBoundsAreErrors) {
  std::vector<std::byte> image(16);
  EXPECT_TRUE(apply_reloc(EM_X86_64, R_X86_64_PC32, image, 12, 4).ok());
  EXPECT_FALSE(apply_reloc(EM_X86_64, R_X86_64_PC32, image, 13, 4).ok());
  EXPECT_FALSE(apply_reloc(EM_X86_64, R_X86_64_PC32, image, 0, int64_t{1} << 33).ok());
  EXPECT_FALSE(apply_reloc(EM_X86_64, R_X86_64_64, image, 0, 4).ok());
}

}  // namespace
}  // namespace modeld::compile
