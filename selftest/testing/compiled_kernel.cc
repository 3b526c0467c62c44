#include "selftest/testing/compiled_kernel.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "hal/program.h"

#include "runtime/ir/dtype.h"
#include "runtime/render/render_cpu.h"

#include "selftest/testing/call_kernel.h"
#include "selftest/testing/kernel_memory.h"

namespace modeld::testing {

KernelBatch::~KernelBatch() {
  if (library_ != nullptr) dlclose(library_);
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

Result<size_t> KernelBatch::add(ir::Graph& g,
                                const ir::Node* ast,
                                const codegen::CodegenOptions& options) {
  ASSIGN_OR_RETURN(codegen::Program p, codegen::to_program(g, ast, options));
  return add(std::move(p));
}

size_t KernelBatch::add(codegen::Program program) {
  programs_.push_back(std::move(program));
  return programs_.size() - 1;
}

Status KernelBatch::build(const std::string& flags) {
  if (machine_) return machine_->build(programs_);
  bool needs_compiler = false;
  for (const codegen::Program& p : programs_) {
    images_.emplace_back();
    needs_compiler = needs_compiler || p.code.empty();
    if (p.code.empty()) continue;
    ASSIGN_OR_RETURN(const UniqueFd fd, sealed_memfd("kernel", p.code));
    ASSIGN_OR_RETURN(images_.back(),
                     Mapping::map_fd(fd.get(), 0, p.code.size(), MapMode::kReadExec));
  }
  if (!needs_compiler) return {};
  std::string pattern = (std::filesystem::temp_directory_path() / "kernels-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) return fail_errno(Errc::kIo, "mkdtemp", errno);
  directory_ = pattern;
  std::ofstream out(directory_ + "/k.c");
  out << render::cpu_prelude(*hal::parse_target("cpu"));
  std::set<std::string> written;
  for (const codegen::Program& p : programs_) {
    if (p.code.empty() && written.insert(p.name).second) out << p.source;
  }
  out.close();
  const std::string command = "clang-19 -O1 -march=native " + std::string(render::kCpuSourceFlags) +
                              " -fPIC -shared -nostdlib -Wl,--no-undefined -w " + flags + " -o " +
                              directory_ + "/k.so " + directory_ + "/k.c";
  if (std::system(command.c_str()) != 0) {
    return fail(Errc::kCompile, "clang refused the batch in " + directory_);
  }
  library_ = dlopen((directory_ + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return fail(Errc::kCompile, dlerror());
  return {};
}

const void* KernelBatch::entry(size_t kernel) const {
  const codegen::Program& p = programs_[kernel];
  return p.code.empty() ? dlsym(library_, p.name.c_str())
                        : static_cast<const void*>(images_[kernel].data());
}

Status KernelBatch::call(size_t kernel,
                         std::span<GuardedMemory> buffers,
                         std::span<const int64_t> vars) const {
  if (machine_) {
    std::vector<ForeignMachine::Memory> there;
    for (GuardedMemory& m : buffers)
      there.push_back({m.bytes, static_cast<size_t>(m.first - m.bytes.data())});
    return machine_->run(kernel, there, vars);
  }
  const codegen::Program& p = programs_[kernel];
  const void* entry = this->entry(kernel);
  if (entry == nullptr) return fail(Errc::kNotFound, p.name);
  std::vector<uint64_t> words;
  for (const GuardedMemory& m : buffers) words.push_back(reinterpret_cast<uint64_t>(m.first));
  for (int64_t v : vars) words.push_back(static_cast<uint64_t>(v));
  for (uint32_t core = 0; core < p.info.global_size[0]; ++core)
    call_kernel(entry, words.data(), core);
  return {};
}

Status KernelBatch::run(size_t kernel,
                        std::span<KernelStorage* const> args,
                        std::span<const int64_t> vars,
                        size_t misalign) const {
  const codegen::Program& p = programs_[kernel];
  std::vector<GuardedMemory> memory;
  for (const KernelStorage* s : args) memory.emplace_back(*s, misalign);
  // Buffers up to the last one the program uses, as every launch passes them.
  const size_t used = p.info.globals.empty() ? 0 : static_cast<size_t>(p.info.globals.back() + 1);
  RETURN_IF_ERROR(call(kernel, std::span(memory).first(std::min(used, memory.size())), vars));
  for (size_t k = 0; k < args.size(); ++k) {
    if (!memory[k].guards_hold()) {
      return fail(Errc::kInternal, p.name + strf(": wrote outside buffer %zu", k));
    }
    memory[k].read_back(*args[k]);
  }
  return {};
}

}  // namespace modeld::testing
