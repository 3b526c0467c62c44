#include "hal/cpu/cpu_program.h"

#include <fcntl.h>

#include <cstring>

#include "hal/base/bytes.h"
#include "hal/base/fs.h"
#include "hal/cpu/cpu_test_util.h"
#include "hal/target.h"

namespace modeld::hal {
namespace {

#if defined(__x86_64__)

// static const int table[4] = {10, 20, 30, 40};
// void k(const uint64_t* w, uint32_t core) { ((int*)w[0])[core] += table[core & 3] + (int)w[1]; }
// as clang-19 -O2 -fPIC -ffreestanding makes it, text first, constants at 32, the one PC-relative
// field filled in.
constexpr uint8_t kAddTable[48] = {
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x07, 0x89, 0xf1, 0x83, 0xe6, 0x03, 0x48, 0x8d, 0x15, 0x0d,
    0x00, 0x00, 0x00, 0x8b, 0x14, 0xb2, 0x03, 0x57, 0x08, 0x01, 0x14, 0x88, 0x5d, 0xc3, 0xcc, 0xcc,
    10,   0,    0,    0,    20,   0,    0,    0,    30,   0,    0,    0,    40,   0,    0,    0};
// void k(const uint64_t* w, uint32_t core) { ((int*)w[0])[core] = 7; }  (by hand: mov rax,[rdi];
// mov dword [rax+rsi*4],7; ret)
constexpr uint8_t kSetSeven[16] = {0x48, 0x8b, 0x07, 0xc7, 0x04, 0xb0, 0x07, 0x00,
                                   0x00, 0x00, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};

template <size_t N>
std::vector<std::byte> code_of(const uint8_t (&code)[N]) {
  const auto bytes = std::as_bytes(std::span(code));
  return {bytes.begin(), bytes.end()};
}

ProgramImage image_of(std::vector<std::byte> code, size_t args) {
  ProgramImage image;
  image.name = "k";
  image.target = "cpu:x86-64";
  image.code = std::move(code);
  image.args.resize(args);
  return image;
}

// Runs `program` over 8 ranges on zeroed ints.
std::vector<int> run(Device& device,
                     const std::shared_ptr<Program>& program,
                     std::vector<Word> more = {}) {
  const Buffer out = zeroed(device, 32);
  std::vector<Word> args = {Word::of(out)};
  args.insert(args.end(), more.begin(), more.end());
  auto recorder = device.record(QueueKind::kCompute);
  recorder->launch(program, args, ranges(8));
  EXPECT_TRUE(device.submit(std::move(recorder)).ok());
  EXPECT_TRUE(device.synchronize(soon()).ok());
  const int* p = cpu_ptr<int>(out);
  return {p, p + 8};
}

TEST(CpuProgram, BytesRunFromASealedMemfd) {
  const auto device = open_cpu();
  const auto program = device->load(image_of(code_of(kAddTable), 2));
  ASSERT_TRUE(program.ok()) << program.error().what;
  EXPECT_THAT(run(*device, *program, {Word::value(1)}),
              testing::ElementsAre(11, 21, 31, 41, 11, 21, 31, 41));
}

// A file as a bundle has it: a page of something else, then one section with two kernels.
std::string write_section(const TempDir& dir, const std::vector<std::byte>& second) {
  ByteWriter w;
  w.write_string("header");
  w.pad_to(4096);
  w.write_span(code_of(kAddTable));
  w.pad_to(64);
  w.write_span(second);
  w.pad_to(4096);
  const std::string path = dir.path() + "/bundle";
  EXPECT_TRUE(write_file_atomic(path, w.bytes()).ok());
  return path;
}

ProgramImage from_file(int fd, uint64_t entry, size_t args) {
  ProgramImage image;
  image.name = "k";
  image.fd = fd;
  image.fd_offset = 4096;
  image.fd_length = 4096;
  image.entry_offset = entry;
  image.args.resize(args);
  return image;
}

// /proc/self/maps has no size of its own, so read_text cannot read it.
std::string read_maps() {
  std::string out;
  UniqueFd fd(open("/proc/self/maps", O_RDONLY));
  char chunk[4096];
  for (ssize_t n = 0; (n = read(fd.get(), chunk, sizeof(chunk))) > 0;)
    out.append(chunk, static_cast<size_t>(n));
  return out;
}

size_t count_in(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(CpuProgram, KernelsOfOneSectionShareOneMapping) {
  const TempDir dir = *TempDir::create();
  const std::string path = write_section(dir, code_of(kSetSeven));
  const auto device = open_cpu();
  UniqueFd fd(open(path.c_str(), O_RDONLY));
  auto first = *device->load(from_file(fd.get(), 0, 2));
  auto second = *device->load(from_file(fd.get(), 64, 1));
  fd.reset();  // borrowed for the call only
  const std::string maps = read_maps();
  EXPECT_EQ(count_in(maps, path), 1U);
  EXPECT_EQ(count_in(maps, "rwxp"), 0U);
  EXPECT_THAT(run(*device, first, {Word::value(0)}),
              testing::ElementsAre(10, 20, 30, 40, 10, 20, 30, 40));
  EXPECT_THAT(run(*device, second), testing::Each(7));
  first.reset();
  EXPECT_THAT(run(*device, second), testing::Each(7));
}

TEST(CpuProgram, AReplacedFileIsANewMapping) {
  const TempDir dir = *TempDir::create();
  const auto device = open_cpu();
  const std::string path = write_section(dir, code_of(kSetSeven));
  UniqueFd old_fd(open(path.c_str(), O_RDONLY));
  const auto old_program = *device->load(from_file(old_fd.get(), 64, 1));
  std::vector<std::byte> changed = code_of(kSetSeven);
  changed[6] = std::byte{9};
  write_section(dir, changed);
  const UniqueFd new_fd(open(path.c_str(), O_RDONLY));
  const auto new_program = *device->load(from_file(new_fd.get(), 64, 1));
  EXPECT_THAT(run(*device, new_program), testing::Each(9));
  EXPECT_THAT(run(*device, old_program), testing::Each(7));
}

TEST(CpuProgram, BadImagesAreRefusedWithAReason) {
  const auto device = open_cpu();
  const auto refuse = [&](const ProgramImage& image, Errc code, const char* text) {
    const auto p = device->load(image);
    ASSERT_FALSE(p.ok()) << text;
    EXPECT_EQ(p.error().code, code) << p.error().what;
    EXPECT_THAT(p.error().what, testing::HasSubstr(text));
  };
  refuse(image_of({}, 1), Errc::kInvalid, "0 code sources");
  ProgramImage two = image_of(code_of(kSetSeven), 1);
  two.host_kernel = [](const uint64_t*, uint32_t) {};
  refuse(two, Errc::kInvalid, "2 code sources");
  ProgramImage entry = image_of(code_of(kSetSeven), 1);
  entry.entry_offset = 16;
  refuse(entry, Errc::kCorrupt, "starts at 16");
  refuse(image_of(code_of(kSetSeven), kMaxArgs + 1), Errc::kInvalid, "1025 arguments");
  ProgramImage target = image_of(code_of(kSetSeven), 1);
  target.target = "cpu:aarch64";
  refuse(target, Errc::kMismatch, "arch aarch64");
  target.target = "cpu:x86-64+avx9000";
  refuse(target, Errc::kMismatch, "avx9000");
  ProgramImage picture = image_of(code_of(kSetSeven), 1);
  picture.args[0].kind = ArgKind::kImageRo;
  refuse(picture, Errc::kUnsupported, "image argument");
  const TempDir dir = *TempDir::create();
  const UniqueFd fd(open(write_section(dir, code_of(kSetSeven)).c_str(), O_RDONLY));
  ProgramImage range = from_file(fd.get(), 0, 1);
  range.fd_length = 8192;
  refuse(range, Errc::kCorrupt, "outside the file");
  range.fd_length = 4096;
  range.fd_offset = 100;
  refuse(range, Errc::kInvalid, "page-aligned");
  range.fd_offset = UINT64_MAX - 4095;
  refuse(range, Errc::kCorrupt, "outside the file");
}

#endif

}  // namespace
}  // namespace modeld::hal
