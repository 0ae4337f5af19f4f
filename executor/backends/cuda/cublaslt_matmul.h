// Matmul by cuBLASLt.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_MATMUL_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_MATMUL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/backends/cuda/cublaslt_library.h"
#include "executor/backends/cuda/matmul.h"
#include "executor/backends/cuda/tuning_table.h"
#include "executor/device.h"

namespace weft::cuda {

// --tuning: how algorithms are chosen. `off` takes what heuristics names first, which is the same on every run; `write`
// measures the best of what it names, once for each shape, and keeps the fastest in a file; `read` takes them from
// there, and what the file does not hold as `off`.
struct TuningOptions {
  enum class Mode { kOff, kWrite, kRead };
  Mode mode = Mode::kOff;
  std::string path;
};
// "off", "write FILE" or "read FILE"; a colon may stand for the space. InvalidArgument names what is allowed.
absl::StatusOr<TuningOptions> ParseTuningOptions(absl::string_view text);

// A Matmul that says which algorithms it takes.
class TunedMatmul : public Matmul {
 public:
  // Of the choices made so far (TuningTable::Digest): runs with equal digests multiply with equal algorithms.
  virtual std::string Digest() const = 0;
};

// On a device that CUDA uses on this thread, and that outlives it; `lt` may be the loops of a test. Errors: those of a
// tuning file; Internal if cuBLASLt does not start.
absl::StatusOr<std::unique_ptr<TunedMatmul>> MakeCublasLtMatmul(const CublasLt* lt, ComputeDevice* device,
                                                                const TuningDevice& described,
                                                                const TuningOptions& tuning);

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_MATMUL_H_
