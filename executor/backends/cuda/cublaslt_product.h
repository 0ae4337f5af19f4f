// One shape of matrix product in cuBLASLt. Its descriptors are made once and its algorithm is chosen once; it runs
// often.
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

// True if cuBLASLt multiplies factors of type `a` directly into a result of type `y`.
bool IsDirectProduct(Type a, Type y);

// Bytes from the first element of each matrix to the end of its last element; 0 if there is no such matrix.
struct ProductBytes {
  int64_t a = 0, b = 0, bias = 0, y = 0;
};
ProductBytes BytesOf(const MatmulShape& shape);

class CublasLtProduct {
 public:
  // Makes a product for addresses that are multiples of `alignment`. The types of the shape must form a direct product
  // (IsDirectProduct). The bias must be absent or have y's type, and k must be at least 1.
  static absl::StatusOr<std::unique_ptr<CublasLtProduct>> Make(const CublasLt* lt, const MatmulShape& shape,
                                                               int64_t alignment);
  CublasLtProduct(const CublasLtProduct&) = delete;
  ~CublasLtProduct();

  // Returns up to `most` algorithms, best first by cuBLASLt's heuristics; the list is the same every time on one kind
  // of device. All of them give the same bits in every run: they add partial sums in a fixed order, in the compute
  // type. Returns Unimplemented if there is none.
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Heuristics(cublasLtHandle_t handle, int64_t workspace_bytes,
                                                               int most) const;

  // Convert an algorithm between the form of a tuning file and the form of cuBLASLt. FromTuned has cuBLASLt check the
  // bytes before they are ever run. It returns InvalidArgument if the algorithm does not support this product, needs
  // more workspace, or does not give the same bits in every run.
  absl::StatusOr<cublasLtMatmulAlgo_t> FromTuned(cublasLtHandle_t handle, const TunedAlgorithm& tuned,
                                                 int64_t workspace_bytes) const;
  static TunedAlgorithm ToTuned(const cublasLtMatmulAlgo_t& algorithm);

  void set_algorithm(const cublasLtMatmulAlgo_t& algorithm) { algorithm_ = algorithm; }
  // Enqueues the product with the algorithm of set_algorithm.
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
  // The layouts in the order of cuBLASLt, which multiplies matrices stored by columns: our b is its first matrix.
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_PRODUCT_H_
