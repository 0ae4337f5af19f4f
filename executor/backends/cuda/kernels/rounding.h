// Rounds fp32 weights and moments to half precision, to nearest or stochastically, to the same bits as
// executor/numerics/stochastic_rounding.h.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROUNDING_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROUNDING_H_

#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/optimizer.h"
#include "executor/backends/cuda/kernels/random.h"

namespace weft::exec::cuda {

// Sets `random` to the random 16-bit numbers of eight elements from `element` on. If `element` is a multiple of eight,
// they are one block of the generator.
WEFT_DEVICE void RoundingNumbersOf(const StochasticRounding& rounding, uint32_t key_high, uint32_t tensor,
                                   uint64_t element, uint32_t (&random)[kBlock]) {
  const uint64_t block = element >> 3;
  const auto words = [&](uint64_t at) {
    return Philox(rounding.key_low, key_high, static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), tensor,
                  rounding.step);
  };
  const PhiloxWords own = words(block);
  const auto shift = static_cast<int>(element & 7);
#pragma unroll
  for (int i = 0; i < kBlock; ++i) random[i] = own.word[i / 2] >> (i % 2 * 16) & 0xffff;
  if (shift == 0) return;
  // The shift is the same in all threads of a tensor. Comparisons select the numbers, because an index would force them
  // out of registers.
  const PhiloxWords next = words(block + 1);
  uint32_t both[2 * kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    both[i] = random[i];
    both[kBlock + i] = next.word[i / 2] >> (i % 2 * 16) & 0xffff;
  }
#pragma unroll
  for (int s = 1; s < kBlock; ++s) {
    if (s != shift) continue;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) random[i] = both[s + i];
  }
}

// Stores up to eight values of the tensor in an array of bf16 or fp16. `first` is a multiple of eight.
template <typename C>
WEFT_DEVICE void StoreAtRandom(const Array& array, const TensorUpdate& tensor, const StochasticRounding& rounding,
                               uint32_t key_high, int64_t first, int64_t count, const C (&values)[kBlock]) {
  uint32_t random[kBlock];
  RoundingNumbersOf(rounding, key_high, tensor.rounding_tensor, static_cast<uint64_t>(tensor.first_element + first),
                    random);
  const bool bf16 = array.type == Type::kBf16;
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    const auto x = static_cast<float>(values[i]);
    random[i] = bf16 ? Bf16FromFloatAtRandom(x, random[i]) : Fp16FromFloatAtRandom(x, random[i]);
  }
  uint16_t* const to = static_cast<uint16_t*>(array.data) + first;
  if (count >= kBlock) {
    Words words;
#pragma unroll
    for (int j = 0; j < 4; ++j) words.word[j] = random[2 * j] | random[2 * j + 1] << 16;
    return StoreWords(to, words);
  }
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    if (i < count) to[i] = static_cast<uint16_t>(random[i]);
  }
}

template <typename C>
WEFT_DEVICE void StoreParam(const TensorUpdate& tensor, const StochasticRounding& rounding, int64_t first,
                            int64_t count, const C (&w)[kBlock]) {
  if (tensor.param.data == nullptr) return;
  if (!rounding.given) return StoreSome(tensor.param, first, count, true, w);
  StoreAtRandom(tensor.param, tensor, rounding, rounding.key_high, first, count, w);
}

// Stores moment 0 or 1 as type `Of`, or as the type of its array if `Of` is kNone.
template <Type Of, typename C>
WEFT_DEVICE void StoreMoment(int moment, const TensorUpdate& tensor, const StochasticRounding& rounding, int64_t first,
                             int64_t count, const C (&values)[kBlock]) {
  const Array& array = tensor.to[moment + 1];
  // Moments in double or single precision are not rounded stochastically.
  if constexpr (sizeof(C) == sizeof(float) && Of != Type::kFp32) {
    if (rounding.given && (array.type == Type::kBf16 || array.type == Type::kFp16)) {
      return StoreAtRandom(array, tensor, rounding, rounding.moment_key_high[moment], first, count, values);
    }
  }
  StoreEight<C, Of>(array, first, count, true, values);
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROUNDING_H_
