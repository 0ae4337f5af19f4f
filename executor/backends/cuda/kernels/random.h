// Philox-4x32-10 in kernels. It makes the same words as executor/numerics/philox.h.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_RANDOM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_RANDOM_H_

#include "executor/backends/cuda/kernels/portable.h"

namespace weft::exec::cuda {

struct PhiloxWords {
  uint32_t word[4];
};

WEFT_DEVICE PhiloxWords Philox(uint32_t key_low, uint32_t key_high, uint32_t c0, uint32_t c1, uint32_t c2,
                               uint32_t c3) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key_low;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key_high;
    c3 = static_cast<uint32_t>(product0);
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_RANDOM_H_
