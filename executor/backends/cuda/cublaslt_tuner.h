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

// How many of what heuristics names are measured.
inline constexpr int kTunedCandidates = 16;

class CublasLtTuner {
 public:
  static absl::StatusOr<std::unique_ptr<CublasLtTuner>> Make(ComputeDevice* device);

  struct Best {
    size_t index = 0;
    // Of one run; 0 = there was not memory to measure in, and `index` is heuristics' first.
    int64_t nanoseconds = 0;
  };
  // On random values, which cost the power that real ones do: zeros run faster. An algorithm that fails is left out.
  // In `idle` where that has room (it may be null), else in memory of the tuner's own, which grows to what the largest
  // product needs.
  absl::StatusOr<Best> Fastest(const MatmulShape& shape, CublasLtProduct& product, cublasLtHandle_t handle,
                               const std::vector<cublasLtMatmulAlgo_t>& algorithms, int64_t workspace_bytes,
                               IdleMemory* idle);

 private:
  explicit CublasLtTuner(ComputeDevice* device) : device_(device), memory_(device) {}

  absl::StatusOr<char*> Take(int64_t bytes, IdleMemory* idle);
  absl::Status Fill(void* to, int64_t bytes, Type type);
  // Once: a device at rest is slow at first, and what is measured then would lose against what comes behind it.
  absl::Status WarmUp(CublasLtProduct& product, cublasLtHandle_t handle,
                      const std::vector<cublasLtMatmulAlgo_t>& algorithms, const MatmulPointers& pointers,
                      void* workspace, int64_t workspace_bytes);
  absl::StatusOr<int64_t> Measure(CublasLtProduct& product, cublasLtHandle_t handle, const MatmulPointers& pointers,
                                  void* workspace, int64_t workspace_bytes);

  ComputeDevice* device_;
  LibraryWorkspace memory_;
  int stream_ = 0;
  int begin_ = 0, end_ = 0;
  // What the device has been kept busy for to warm it up.
  int64_t warm_nanoseconds_ = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_TUNER_H_
