// bf16 and fp16 as bits, and their conversions from float and double: rounded once, to nearest, ties to even. The
// conversions give the same bits as executor/numerics/float_bits.h and use the device's instructions where it has them.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NUMBERS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NUMBERS_H_

#include <stdint.h>

#include "executor/numerics/float_bits.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define WEFT_DEVICE __device__ __forceinline__
#else
#define WEFT_DEVICE inline
#endif

namespace weft::exec::cuda {

struct Bf16 {
  uint16_t bits;
};

struct Fp16 {
  uint16_t bits;
};

WEFT_DEVICE float ToFloat(Bf16 x) { return FloatFromBf16(x.bits); }

#ifdef __CUDACC__
WEFT_DEVICE float ToFloat(Fp16 x) { return __half2float(__ushort_as_half(x.bits)); }
WEFT_DEVICE Bf16 ToBf16(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
WEFT_DEVICE Fp16 ToFp16(float x) { return {__half_as_ushort(__float2half_rn(x))}; }
#else
inline float ToFloat(Fp16 x) { return FloatFromFp16(x.bits); }
inline Bf16 ToBf16(float x) { return {Bf16FromFloat(x)}; }
inline Fp16 ToFp16(float x) { return {Fp16FromFloat(x)}; }
#endif

WEFT_DEVICE Bf16 ToBf16(double x) { return ToBf16(OddFromDouble(x)); }
WEFT_DEVICE Fp16 ToFp16(double x) { return ToFp16(OddFromDouble(x)); }

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NUMBERS_H_
