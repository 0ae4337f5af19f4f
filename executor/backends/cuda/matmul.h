// Interface of the CUDA backend for matrix products. cuBLASLt implements it, or loops where there is no GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_MATMUL_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_MATMUL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "executor/backends/cuda/idle_memory.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// A stream of the device (executor/interface/device.h): its number, and its handle for CUDA's libraries (cudaStream_t).
// Without a GPU, only the number distinguishes streams.
struct StreamRef {
  int number = 0;
  void* native = nullptr;
};

// A matrix as stored, row-major: element (i, j) of batch b is data[b * batch_stride + i * stride + j].
struct MatrixLayout {
  Type type = Type::kNone;
  int64_t stride = 0;
  int64_t batch_stride = 0;

  bool operator==(const MatrixLayout&) const = default;
};

// y = (old y, if `accumulate`) + (scale * op(a) op(b) + bias), for each of `batch` products. op(a) is m x k: a is
// stored as m x k or, with transpose_a, as k x m. op(b) is k x n likewise. `bias` has n elements and is added to every
// row.
//
// a and b have one type: kFp32 (true fp32 products unless `tf32` is set), kBf16 or kFp16 (products summed in fp32) or
// kFp64 (products summed in fp64). y and bias may have any floating-point type: the sum is rounded to the type of y
// once. k may be 0; m and n may not. The struct holds everything that the choice of an algorithm may depend on, so it
// can be the key of a cache.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  bool transpose_a = false, transpose_b = false;
  MatrixLayout a, b, y;
  // kNone = no bias.
  Type bias = Type::kNone;
  bool accumulate = false;
  double scale = 1;
  // Only for factors in kFp32: they may be shortened to TF32, ten bits of fraction. Products are summed in fp32.
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

  // Called before the first Prepare: gives memory that may be used until Settle returns.
  virtual void UseIdleMemory([[maybe_unused]] IdleMemory* memory) {}
  // Announces a shape before the first step. Algorithms are chosen here, not in Run.
  virtual absl::Status Prepare(const MatmulShape& shape) = 0;
  // Called after the last Prepare: allocates the workspace of the products. If idle memory was given, it also runs each
  // product once in that memory, on the device's default stream.
  virtual absl::Status Settle() { return absl::OkStatus(); }
  // Enqueues the product. The same shape gives the same bits each time. Returns InvalidArgument if this implementation
  // does not multiply these types.
  virtual absl::Status Run(const MatmulShape& shape, const MatmulPointers& pointers, const StreamRef& stream) = 0;
  // Like Backend::Digest, for the algorithms chosen so far.
  virtual std::string Digest() const { return ""; }
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_MATMUL_H_
