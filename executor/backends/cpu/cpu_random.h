// Random numbers of the CPU kernels: output words of the Philox generator for runs of elements (docs/kernels.md).
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_RANDOM_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_RANDOM_H_

#include <algorithm>
#include <cstdint>

#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/numerics/philox.h"

namespace weft::exec::cpu {

// An element is dropped if its word is below this threshold.
inline uint32_t DropoutThreshold(double p) { return static_cast<uint32_t>(p * 0x1p32); }

// Random words of the elements of one sample at one dropout site.
class DropoutWords {
 public:
  // Elements of scratch that Get needs for n elements.
  static int64_t Scratch(int64_t n) { return n + 8; }

  DropoutWords(const Call& call, int64_t sample)
      : loops_(call.workspace.loops),
        key_(MakePhiloxKey(call.context.seed, PhiloxPurpose::kDropout)),
        site_(call.attributes().dropout_site()),
        sample_(static_cast<uint64_t>(sample)) {}

  // Returns the words of elements [first, first + n), in `scratch`.
  const uint32_t* Get(int64_t first, int64_t n, uint32_t* scratch) const {
    const int64_t block = first / 4;
    const int64_t blocks = (first + n + 3) / 4 - block;
    loops_.philox(key_.low, key_.high, static_cast<uint32_t>(block), site_, static_cast<uint32_t>(sample_),
                  static_cast<uint32_t>(sample_ >> 32), blocks, scratch);
    return scratch + (first - block * 4);
  }

 private:
  const LoopTable& loops_;
  PhiloxKey key_;
  uint32_t site_;
  uint64_t sample_;
};

// Random numbers of stochastic rounding for the elements that a step updates (executor/numerics/stochastic_rounding.h).
class RoundingBits {
 public:
  // 32-bit words of scratch that Get needs for n elements.
  static constexpr int64_t Scratch(int64_t n) { return n / 2 + 8; }

  RoundingBits(const Call& call, PhiloxPurpose purpose)
      : loops_(call.workspace.loops),
        key_(MakePhiloxKey(call.context.seed, purpose)),
        first_(static_cast<uint64_t>(call.context.first_element)),
        tensor_(call.attributes().rounding_site() - 1),
        step_(static_cast<uint32_t>(call.context.step)) {}

  // Returns the 16-bit numbers of elements [first, first + n) of the step, in `scratch`.
  const void* Get(int64_t first, int64_t n, uint32_t* scratch) const {
    const uint64_t element = first_ + static_cast<uint64_t>(first), end = (element + static_cast<uint64_t>(n) + 7) / 8;
    for (uint64_t block = element / 8; block < end;) {
      // loops_.philox counts blocks in 32 bits.
      const uint64_t next = std::min(end, ((block >> 32) + 1) << 32);
      loops_.philox(key_.low, key_.high, static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), tensor_,
                    step_, static_cast<int64_t>(next - block), scratch + 4 * (block - element / 8));
      block = next;
    }
    return reinterpret_cast<const char*>(scratch) + element % 8 * 2;
  }

 private:
  const LoopTable& loops_;
  PhiloxKey key_;
  uint64_t first_;
  uint32_t tensor_, step_;
};

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_RANDOM_H_
