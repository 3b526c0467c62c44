// The supervisor's heap as a fixed pool: what libraries allocate per message (libzmq does, on its
// own thread too) comes from memory that is resident from the start and stays so. Without it the
// heap creeps page by page towards its high-water mark (some 40 KB over the first 50 000 frames,
// then none), and a page fault can land in a frame. Not for workers: they load and may compile
// first, and allocate nothing later. Units: bytes. Threading: the first before any other thread
// exists, the second any time.
#pragma once

#include <cstddef>

namespace modeld::daemon {

// More than queues and messages under way were seen to hold.
constexpr size_t kHeapReserveBytes = 1024 * 1024;

// One heap for all threads, and nothing of it is given back.
void use_one_heap();
// Makes that much more of it resident, when all that lives long has been made.
void reserve_heap();

}  // namespace modeld::daemon
