// One shape of matrix product as cuBLASLt describes it: descriptors made once, an algorithm chosen once, then run.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_PRODUCT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/backends/cuda/cublaslt_library.h"
#include "executor/backends/cuda/matmul.h"
#include "executor/backends/cuda/tuning_table.h"

namespace weft::exec::cuda {

// Whether cuBLASLt multiplies a and b of this type into a y of that one.
bool IsDirectProduct(Type a, Type y);

// Bytes from the first element of each matrix to behind its last; 0 = it is not there.
struct ProductBytes {
  int64_t a = 0, b = 0, bias = 0, y = 0;
};
ProductBytes BytesOf(const MatmulShape& shape);

class CublasLtProduct {
 public:
  // For addresses that are multiples of `alignment`. The shape is direct, its bias none or of y's type, k at least 1.
  static absl::StatusOr<std::unique_ptr<CublasLtProduct>> Make(const CublasLt* lt, const MatmulShape& shape,
                                                               int64_t alignment);
  CublasLtProduct(const CublasLtProduct&) = delete;
  ~CublasLtProduct();

  // Up to `most` algorithms, the one that heuristics thinks fastest first. The same list each time on one kind of
  // device. Only ones that give the same bits each time: partial sums are added in a fixed order, in the compute type.
  // Unimplemented if there is none.
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Heuristics(cublasLtHandle_t handle, int64_t workspace_bytes,
                                                               int most) const;

  // An algorithm of a tuning file, and back. InvalidArgument if cuBLASLt says that this product does not run it, not
  // within the workspace, or not with the same bits each time. Whatever the bytes are, it is asked before they are run.
  absl::StatusOr<cublasLtMatmulAlgo_t> FromTuned(cublasLtHandle_t handle, const TunedAlgorithm& tuned,
                                                 int64_t workspace_bytes) const;
  static TunedAlgorithm ToTuned(const cublasLtMatmulAlgo_t& algorithm);

  void set_algorithm(const cublasLtMatmulAlgo_t& algorithm) { algorithm_ = algorithm; }
  // Enqueues with the algorithm that was set.
  absl::Status Run(cublasLtHandle_t handle, const MatmulPointers& pointers, void* workspace, int64_t workspace_bytes,
                   void* native_stream);

 private:
  CublasLtProduct(const CublasLt* lt, const MatmulShape& shape, int64_t alignment)
      : lt_(lt), shape_(shape), alignment_(alignment) {}
  absl::Status Describe();

  const CublasLt* lt_;
  MatmulShape shape_;
  int64_t alignment_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  // In the order of cuBLASLt: it multiplies matrices stored by columns, so that our b is its first.
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_PRODUCT_H_
