// Matrix products of the CUDA backend: what it asks of cuBLASLt, or of loops where there is no GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_MATMUL_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_MATMUL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "executor/backends/cuda/idle_memory.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// A stream of the device (executor/interface/device.h): its number, and itself as CUDA's libraries take it
// (cudaStream_t). Only the number tells streams apart where there is no GPU.
struct StreamRef {
  int number = 0;
  void* native = nullptr;
};

// A matrix as it is stored, row-major: element (i, j) of batch b is data[b * batch_stride + i * stride + j].
struct MatrixLayout {
  Type type = Type::kNone;
  int64_t stride = 0;
  int64_t batch_stride = 0;

  bool operator==(const MatrixLayout&) const = default;
};

// y = old y, if `accumulate`, + (scale * op(a) op(b) + bias), for each of `batch` products. op(a) is m x k: a is stored
// as that, or, with transpose_a, as k x m; op(b) is k x n likewise. `bias` has n elements, added to every row.
//
// a and b are of one type: kFp32 (true fp32 products unless `tf32` is set), kBf16 or kFp16 (products summed in fp32) or
// kFp64 (in fp64). y and bias may be of any floating-point type: the sum is rounded to it once. k may be 0, m and n
// not. Everything that a choice of algorithm may depend on is in here, so that it can be the key of a cache.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  bool transpose_a = false, transpose_b = false;
  MatrixLayout a, b, y;
  // kNone: no bias.
  Type bias = Type::kNone;
  bool accumulate = false;
  double scale = 1;
  // Of factors in kFp32 alone: they may be shortened to TF32, ten bits of fraction. Products are summed in fp32.
  bool tf32 = false;

  bool operator==(const MatmulShape&) const = default;
};

struct MatmulPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
};

class Matmul {
 public:
  virtual ~Matmul() = default;

  // Before the first Prepare: memory that may be used until Settle returns.
  virtual void UseIdleMemory([[maybe_unused]] IdleMemory* memory) {}
  // Announces a shape before the first step: algorithms are chosen here, not in Run.
  virtual absl::Status Prepare(const MatmulShape& shape) = 0;
  // After the last Prepare: allocates what products work in, and runs each once in the idle memory, if that was given.
  // What it enqueues there is on the device's default stream.
  virtual absl::Status Settle() { return absl::OkStatus(); }
  // Enqueues. The same shape gives the same bits each time. InvalidArgument: types that it does not multiply.
  virtual absl::Status Run(const MatmulShape& shape, const MatmulPointers& pointers, const StreamRef& stream) = 0;
  // As Backend::Digest, of the algorithms taken so far.
  virtual std::string Digest() const { return ""; }
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_MATMUL_H_
