// Products of small matrices by tensor cores: a warp multiplies two matrices of 16-bit numbers, 16 x 16 and 16 x 8, and
// adds the product to a 16 x 8 matrix of floats (PTX mma.sync.m16n8k16, compute capability 8.0; NVIDIA, PTX ISA,
// "Matrix Fragments for mma.m16n8k16").
//
// Elements of each lane, with g = lane / 4 and t = lane % 4. A word holds two neighboring numbers, the lower index in
// its lower 16 bits:
//   left   [16, 16]  words at row g, k 2t; row g + 8, k 2t; row g, k 2t + 8; row g + 8, k 2t + 8
//   right  [16, 8]   words at k 2t, column g; k 2t + 8, column g
//   sums   [16, 8]   row g, columns 2t and 2t + 1; row g + 8, the same columns
// So two neighboring blocks of sums, once rounded, form the left factor of another product.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_MMA_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_MMA_H_

#include "executor/backends/cuda/kernels/access.h"

namespace weft::exec::cuda {

struct MmaLeft {
  uint32_t word[4];
};
struct MmaRight {
  uint32_t word[2];
};
struct MmaSums {
  float sum[4];
};

#ifdef __CUDACC__

// All lanes of the warp must call it. `volatile` keeps the compiler from moving the product into a branch that some
// lanes skip. The hardware adds the terms of a product in an order of its own, which is the same every time.
template <Type S>
WEFT_DEVICE void Multiply(DeviceThread&, const MmaLeft& a, const MmaRight& b, MmaSums& c) {
  if constexpr (S == Type::kBf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.sum[0]), "+f"(c.sum[1]), "+f"(c.sum[2]), "+f"(c.sum[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.sum[0]), "+f"(c.sum[1]), "+f"(c.sum[2]), "+f"(c.sum[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
  }
}

#else

// The emulation: a lane collects the rows of the left factor and the columns of the right one that it needs from all
// lanes.
template <Type S, typename Thread>
void Multiply(Thread& thread, const MmaLeft& a, const MmaRight& b, MmaSums& c) {
  const int g = thread.lane() / 4, t = thread.lane() % 4;
  // The words of rows g, of rows g + 8 of the left factor, and of columns g of the right factor. In each pair of words
  // the lower k comes first.
  uint64_t lanes[3][kWarp];
  thread.Gather(a.word[0] | uint64_t{a.word[2]} << 32, lanes[0]);
  thread.Gather(a.word[1] | uint64_t{a.word[3]} << 32, lanes[1]);
  thread.Gather(b.word[0] | uint64_t{b.word[1]} << 32, lanes[2]);
  // Returns element k of the row or column that begins in lane `first`.
  const auto element = [&](int which, int first, int k) {
    const auto bits = static_cast<uint16_t>(lanes[which][first + k % 8 / 2] >> (k / 8 * 32 + k % 2 * 16));
    return S == Type::kBf16 ? ToFloat(Bf16{bits}) : ToFloat(Fp16{bits});
  };
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 16; ++k) c.sum[2 * i + j] += element(i, 4 * g, k) * element(2, 4 * (2 * t + j), k);
    }
  }
}

#endif

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_MMA_H_
