// Bundles that are whole files with right hashes and yet not what a daemon may run: a kernel
// without its binary, another machine's code, golden numbers that nobody computed. What the tests
// and the fault matrix feed to modeld.
// Contract: `from` is a good bundle; every failure is a test failure. Threading: main thread.
#pragma once

#include <functional>
#include <string>

#include "runtime/exec/plan.h"

namespace modeld::e2e {

// Without the binary of the kernel that entry run's first program call uses; gives its name.
std::string strip_first_kernel(const std::string& from, const std::string& to);
// Other code for the same kernel.
void change_first_kernel(const std::string& from,
                         const std::string& to,
                         const std::function<void(exec::Image&)>& change);
// The same bundle for 64-bit ARM.
void retarget_to_arm(const std::string& from, const std::string& to);
// One golden output changed: the bundle opens, its self-test cannot pass.
void break_golden(const std::string& from, const std::string& to);

// Another timing budget.
void set_budget(const std::string& from, const std::string& to, double p50_ms, double p99_ms);
// Section graph states another kernel than the one whose binary the bundle holds.
void swap_first_kernels_text(const std::string& from, const std::string& to);
// All buffers of an arena in one place, whether two are alive at one time or not.
void overlap_buffers(const std::string& from, const std::string& to);

// Whole files.
std::string bytes_of(const std::string& path);
void put_bytes(const std::string& path, const std::string& bytes);

}  // namespace modeld::e2e
