// What runs kernels. A backend knows nothing of models, stages, gradients or schedules.
#ifndef WEFT_EXECUTOR_BACKEND_H_
#define WEFT_EXECUTOR_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/data.h"
#include "proto/program.pb.h"

namespace weft {

// Dense row-major tensor in memory that the backend owns. `data` is aligned to 64 bytes.
struct TensorView {
  void* data = nullptr;
  DType dtype = DTYPE_UNSPECIFIED;
  absl::Span<const int64_t> shape;
};

// What a step may depend on besides its values.
struct StepContext {
  // Optimizer step, from 0.
  int64_t step = 0;
  double learning_rate = 0;
  uint64_t seed = 0;
  // Global index in the repetition of the first microbatch that the step is for (rule P9).
  int64_t global_microbatch = 0;
  // Global sample of the run of its first sequence.
  int64_t first_sample = 0;
  // Sequences that the rank computes of all microbatches that the step is for: its own samples on the axis z (rule P9).
  int64_t microbatch_sequences = 1;
  // Where the sequences of one microbatch are shared by the coordinates of z: how many of it are this rank's, and how
  // far behind them the next microbatch's begin. 0 = all sequences of the step are neighbours.
  int64_t own_sequences = 0;
  int64_t sample_stride = 0;
  // StepAttributes.column_shift and row_shift at the rank's coordinates (rule P8).
  int64_t column_shift = 0;
  int64_t row_shift = 0;
  // SQUARED_NORM: the rank's coordinate is 0 on every axis of counted_once.
  bool writes_norm = true;
  const DataSource* data = nullptr;

  // Global sample of the run of the i-th sequence of the step.
  int64_t SampleOf(int64_t i) const {
    return own_sequences == 0 ? first_sample + i : first_sample + i / own_sequences * sample_stride + i % own_sequences;
  }
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Runs one kernel to its end (docs/kernels.md). The program has been verified: shapes and dtypes agree.
  // InvalidArgument if the kernel does not take these dtypes.
  virtual absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                           const StepContext& context) = 0;
};

// CPU backend that splits each kernel over `threads` threads (>= 1, the caller's own among them). Results do not
// depend on `threads`. One backend serves one rank: Run is not called concurrently.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace weft

#endif  // WEFT_EXECUTOR_BACKEND_H_
