// Decides in kernels which elements of a sample a dropout site keeps.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DROPOUT_WORDS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DROPOUT_WORDS_H_

#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/dropout.h"
#include "executor/backends/cuda/kernels/random.h"

namespace weft::exec::cuda {

// Returns the global sample (in the run) of the i-th sequence of the step.
WEFT_DEVICE uint64_t SampleOf(const Samples& samples, int64_t i) {
  if (samples.own_sequences == 0) return static_cast<uint64_t>(samples.first_sample + i);
  const int64_t microbatch = Divide(i, samples.own_sequences);
  return static_cast<uint64_t>(samples.first_sample + microbatch * samples.sample_stride + i -
                               microbatch * samples.own_sequences);
}

// Random words for one thread. Keeps the four words of the last block of elements.
class DropoutWords {
 public:
  WEFT_DEVICE explicit DropoutWords(const DropoutKey& key) : key_(key) {}

  WEFT_DEVICE bool IsKept(uint64_t sample, int64_t element) {
    const auto block = static_cast<uint32_t>(element >> 2);
    if (block != block_ || sample != sample_ || !any_) {
      any_ = true;
      block_ = block;
      sample_ = sample;
      words_ = Philox(key_.key_low, key_.key_high, block, key_.site, static_cast<uint32_t>(sample),
                      static_cast<uint32_t>(sample >> 32));
    }
    // Comparisons select the word. An index would force the words out of registers.
    const int place = static_cast<int>(element & 3);
    const uint32_t low = place == 0 ? words_.word[0] : words_.word[1];
    const uint32_t high = place == 2 ? words_.word[2] : words_.word[3];
    return (place < 2 ? low : high) >= key_.threshold;
  }

 private:
  const DropoutKey& key_;
  PhiloxWords words_ = {};
  uint64_t sample_ = 0;
  uint32_t block_ = 0;
  bool any_ = false;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DROPOUT_WORDS_H_
