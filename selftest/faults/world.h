// What a row does to the world around the daemon: a full disk, another compiler, another clock, too
// little memory, a process that nothing can end. Everything lies in namespaces and control groups
// of the row's own; the machine's own are never touched. Contract: what the machine does not allow
// makes the row a skipped one that says why. Threading: one thread, before Scene::start() where a
// namespace is entered.
#pragma once

#include <cstdint>
#include <string>

#include "selftest/faults/scene.h"

namespace modeld::faults {

// Mounts of this process and its children only.
bool enter_mount_namespace(Scene& scene);
// A file system of 1 MiB without a free byte at `path`.
void mount_full_disk(Scene& scene, const std::string& path);
// An empty one.
void mount_empty(Scene& scene, const std::string& path);
// `script` instead of the compiler; it is asked for its version first and answers like one.
void replace_compiler(Scene& scene, const std::string& script);

// CLOCK_MONOTONIC of the children to come is ahead by so much.
void shift_clock(Scene& scene, int64_t seconds);

// The kernel ends the process for want of memory: it shares a group with others that take all, and
// is the first to be chosen.
void run_out_of_memory(Scene& scene, int pid);
// Stops the process so that not even SIGKILL ends it, until thaw().
void freeze(Scene& scene, int pid);
void thaw(Scene& scene);

// Processes whose command line holds `text`.
int count_processes(const std::string& text);
// Resident memory, bytes.
int64_t resident_bytes(int pid);

}  // namespace modeld::faults
