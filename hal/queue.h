// Recording and replay: a Recorder collects commands, bind() turns them into a Bound that is
// submitted many times. This is not a hardware ring: nothing runs before submit, and only patched
// words differ between submissions.
// Contract: a Word is a constant or the number of an entry of the inputs given to Bound::submit
// ("patch slot"). Recording errors are latched and reported by bind. Commands of one device run in
// submission order.
// Threading: a Recorder and a Bound belong to one thread at a time; submit never allocates, logs or
// holds a lock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hal/base/status.h"
#include "hal/buffer.h"
#include "hal/program.h"
#include "hal/signal.h"

namespace modeld::hal {

struct Word {
  uint64_t imm = 0;
  int32_t slot = -1;  // >= 0: taken from inputs[slot] at submit, imm is ignored

  static constexpr Word value(uint64_t v) { return Word{v, -1}; }
  static constexpr Word input(uint32_t slot) { return Word{0, static_cast<int32_t>(slot)}; }
  static Word of(const Buffer& b) { return Word{b.addr(), -1}; }
  bool is_patched() const { return slot >= 0; }
};

struct Dim3 {
  Word x{1}, y{1}, z{1};
};

class Bound {
 public:
  // Waits (bounded) for its own previous run, rewrites the words whose inputs changed, hands the
  // list to the device and returns the point that will be reached when it is done. kInvalid when
  // inputs are fewer than input_count().
  virtual Result<TimelinePoint> submit(std::span<const uint64_t> inputs) = 0;
  virtual size_t input_count() const = 0;  // highest slot used + 1
  // Words the last submit rewrote: none when its inputs were those of the submit before.
  virtual size_t patched_words() const = 0;
  virtual ~Bound() = default;  // waits (bounded) for the run in flight
};

class Recorder {
 public:
  // Blocks the queue until the 64-bit value at `addr` is >= value.
  virtual Recorder& wait(Word addr, Word value) = 0;
  virtual Recorder& signal(Word addr, Word value) = 0;
  // An earlier submission of any device of the same peer group.
  virtual Recorder& wait(TimelinePoint point) = 0;
  virtual Recorder& barrier() = 0;
  virtual Recorder& stamp(const Signal& signal) = 0;  // raw time into the signal's stamp
  // CPU: groups.x core ranges, everything else 1. The recording keeps the program alive.
  virtual Recorder& launch(const std::shared_ptr<Program>& program,
                           std::span<const Word> args,
                           Dim3 groups = {},
                           Dim3 local = {}) = 0;
  virtual Recorder& copy(Word dst, Word src, Word size_bytes) = 0;
  virtual Recorder& write(Word dst, Word value, bool wide) = 0;  // 32 bits, wide: 64
  virtual Recorder& poll(Word addr,
                         uint32_t ref,
                         uint32_t mask) = 0;  // blocks until (u32 & mask) == ref
  // Holds the memory until the Bound is gone.
  virtual Recorder& keep(const Buffer& buffer) = 0;
  virtual Result<std::unique_ptr<Bound>> bind() && = 0;
  virtual ~Recorder() = default;

  Recorder& wait(const Signal& s, Word value) { return wait(Word::value(s.value_addr()), value); }
  Recorder& signal(const Signal& s, Word value) {
    return signal(Word::value(s.value_addr()), value);
  }
};

}  // namespace modeld::hal
