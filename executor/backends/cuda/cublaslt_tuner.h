// Measures algorithms of matrix products.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_TUNER_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_TUNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/backends/cuda/cublaslt_product.h"
#include "executor/backends/cuda/idle_memory.h"
#include "executor/backends/cuda/library_workspace.h"
#include "executor/backends/cuda/matmul.h"
#include "executor/interface/device.h"

namespace weft::exec::cuda {

// Maximum number of algorithms that the tuner measures, from the heuristics' list.
inline constexpr int kTunedCandidates = 16;

class CublasLtTuner {
 public:
  static absl::StatusOr<std::unique_ptr<CublasLtTuner>> Make(ComputeDevice* device);

  struct Best {
    size_t index = 0;
    // Time of one run. 0 = not measured for lack of memory; `index` is then the heuristics' first choice.
    int64_t nanoseconds = 0;
  };
  // Measures the algorithms and returns the fastest. The values are random, since products of zeros draw less power and
  // run faster. Skips algorithms that cuBLASLt refuses. Works in `idle` (which may be null) if that is large enough,
  // else in the tuner's own memory, which grows to the needs of the largest product.
  absl::StatusOr<Best> Fastest(const MatmulShape& shape, CublasLtProduct& product, cublasLtHandle_t handle,
                               const std::vector<cublasLtMatmulAlgo_t>& algorithms, int64_t workspace_bytes,
                               IdleMemory* idle);

 private:
  explicit CublasLtTuner(ComputeDevice* device) : device_(device), memory_(device) {}

  absl::StatusOr<char*> Take(int64_t bytes, IdleMemory* idle);
  absl::Status Fill(void* to, int64_t bytes, Type type);
  // Warms the device up, once. A device at rest is slow at first, so without a warm-up the algorithm that is measured
  // first would seem slower than later ones.
  absl::Status WarmUp(CublasLtProduct& product, cublasLtHandle_t handle,
                      const std::vector<cublasLtMatmulAlgo_t>& algorithms, const MatmulPointers& pointers,
                      void* workspace, int64_t workspace_bytes);
  absl::StatusOr<int64_t> Measure(CublasLtProduct& product, cublasLtHandle_t handle, const MatmulPointers& pointers,
                                  void* workspace, int64_t workspace_bytes);

  ComputeDevice* device_;
  LibraryWorkspace memory_;
  int stream_ = 0;
  int begin_ = 0, end_ = 0;
  // Time that the device has been kept busy to warm it up.
  int64_t warm_nanoseconds_ = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_TUNER_H_
