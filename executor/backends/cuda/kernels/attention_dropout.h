// Which probabilities attention keeps: words of Philox-4x32-10, counted as docs/kernels.md says.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_DROPOUT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_DROPOUT_H_

#include <stdint.h>

#include "executor/device_code.h"

namespace weft::cuda {

struct AttentionDropout {
  // An element is dropped when its word is below it; 0: nothing is.
  uint32_t threshold = 0;
  uint32_t key_low = 0, key_high = 0;
  uint32_t site = 0;
  // Global samples of the run of a step's sequences (StepContext::SampleOf).
  int64_t first_sample = 0, own_sequences = 0, sample_stride = 0;

  WEFT_HOST_DEVICE uint64_t SampleOf(int64_t sequence) const {
    if (own_sequences == 0) return static_cast<uint64_t>(first_sample + sequence);
    const int64_t microbatch = sequence / own_sequences;
    return static_cast<uint64_t>(first_sample + microbatch * sample_stride + sequence - microbatch * own_sequences);
  }

  // Whether element e of a sample is kept.
  WEFT_HOST_DEVICE bool Keeps(uint64_t sample, int64_t e) const {
    uint32_t x0 = static_cast<uint32_t>(e >> 2), x1 = site;
    uint32_t x2 = static_cast<uint32_t>(sample), x3 = static_cast<uint32_t>(sample >> 32);
    uint32_t low = key_low, high = key_high;
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53} * x0, product1 = uint64_t{0xCD9E8D57} * x2;
      x0 = static_cast<uint32_t>(product1 >> 32) ^ x1 ^ low;
      x2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ high;
      x1 = static_cast<uint32_t>(product1);
      x3 = static_cast<uint32_t>(product0);
      low += 0x9E3779B9;
      high += 0xBB67AE85;
    }
    const int place = static_cast<int>(e & 3);
    return (place == 0 ? x0 : place == 1 ? x1 : place == 2 ? x2 : x3) >= threshold;
  }
};

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_DROPOUT_H_
