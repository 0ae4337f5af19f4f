// Dropout masks of the CPU kernels: words of the counter generator for runs of logical elements (docs/kernels.md).
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_RANDOM_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_RANDOM_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu_kernel.h"
#include "executor/philox.h"

namespace weft::cpu {

// An element is dropped when its word is below this.
inline uint32_t DropoutThreshold(double p) { return static_cast<uint32_t>(p * 0x1p32); }

// Words of the elements of one sample at one dropout site.
class DropoutWords {
 public:
  // Elements of scratch that Get needs for n elements.
  static int64_t Scratch(int64_t n) { return n + 8; }

  DropoutWords(const Call& call, int64_t sample)
      : loops_(call.workspace.loops),
        key_(MakePhiloxKey(call.context.seed, PhiloxPurpose::kDropout)),
        site_(call.attributes().dropout_site()),
        sample_(static_cast<uint64_t>(sample)) {}

  // Words of elements [first, first + n), in `scratch`.
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

// InvalidArgument unless p is in [0, 1) and a sample's elements can be counted by 32 bits of e / 4.
inline absl::Status CheckDropout(const Call& call, int64_t elements_per_sample) {
  const double p = call.attributes().dropout();
  if (!(p >= 0 && p < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("step '", call.step.name(), "': dropout is ", p, "; it must be at least 0 and below 1"));
  }
  if (p > 0 && elements_per_sample > (int64_t{1} << 34)) {
    return absl::InvalidArgumentError(absl::StrCat("step '", call.step.name(), "': ", elements_per_sample,
                                                   " elements of one sample at a dropout site; at most 2^34"));
  }
  return absl::OkStatus();
}

}  // namespace weft::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_RANDOM_H_
