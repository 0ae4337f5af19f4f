// What runs kernels. A backend knows nothing of models, stages, gradients or schedules.
#ifndef WEFT_EXECUTOR_INTERFACE_BACKEND_H_
#define WEFT_EXECUTOR_INTERFACE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/data/data.h"
#include "executor/interface/device.h"
#include "proto/program.pb.h"

namespace weft::exec {

// Dense row-major tensor in memory of the backend's device. `data` is aligned to 64 bytes.
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
  // ADAMW, SGD_STEP with rounding_site: number of the first element that the step updates, of those of the whole tensor
  // counted part after part (docs/kernels.md, "Stochastic rounding").
  int64_t first_element = 0;
  // SQUARED_NORM: the rank's coordinate is 0 on every axis of counted_once.
  bool writes_norm = true;
  const DataSource* data = nullptr;
  // Of the device (executor/interface/device.h): where an asynchronous backend enqueues the step.
  int stream = 0;

  // Global sample of the run of the i-th sequence of the step.
  int64_t SampleOf(int64_t i) const {
    return own_sequences == 0 ? first_sample + i : first_sample + i / own_sequences * sample_stride + i % own_sequences;
  }
};

// One step of a run, with what its context has of its own.
struct StepOfRun {
  const Step* step = nullptr;
  absl::Span<const TensorView> inputs;
  absl::Span<const TensorView> outputs;
  int64_t first_element = 0;
  bool writes_norm = true;
};

// Several steps as one piece of work, prepared once.
class StepRun {
 public:
  virtual ~StepRun() = default;
  // As Backend::Run of each step in turn, bit for bit.
  virtual absl::Status Run(const StepContext& context) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Runs one kernel to its end, or enqueues it on context.stream of an asynchronous device (docs/kernels.md); what the
  // arguments refer to outlives the device's work but for `context`, which is read before the call returns. The program
  // has been verified: shapes and dtypes agree. InvalidArgument if the kernel does not take these dtypes.
  virtual absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                           const StepContext& context) = 0;

  // Steps of one action that may be one launch (proto/util/step_runs.h): alike, and touching nothing of each other but
  // for reading the same; or a norm and the ADD beside it, in their order. Null: they are run one by one. What they
  // refer to outlives the result. Called before the first step.
  virtual absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun([[maybe_unused]] absl::Span<const StepOfRun> steps) {
    return std::unique_ptr<StepRun>();
  }

  // 16 hexadecimal digits of what it chose between ways that may differ in bits (algorithms of libraries): runs of
  // equal digests choose alike. Empty: there was nothing to choose.
  virtual std::string Digest() const { return ""; }

  // What of the program it was made for takes longer than one would think, and why: a line each, for people, known when
  // the backend has been made.
  virtual std::vector<std::string> Notes() const { return {}; }
};

struct DeviceOptions {
  // Which of this machine's devices; -1 = the one of this process (its local rank).
  int ordinal = -1;
};

struct BackendOptions {
  // >= 1. CPU only.
  int threads = 1;
  // Steps that a backend may prepare for before the first of them runs, so that nothing is allocated or chosen later;
  // null = it prepares as it goes.
  const Program* program = nullptr;
  int rank = 0;
  // Memory of the device that nobody uses before the backend has been made, all zero, as it is again then; null = none.
  // What libraries are to run for the program is run in it once, so that nothing is left for the first step to load.
  void* idle_memory = nullptr;
  int64_t idle_bytes = 0;
  // CUDA: how algorithms of matrix products are chosen: "off", "write FILE" or "read FILE".
  std::string tuning = "off";
};

struct BackendEntry {
  absl::string_view name;
  // FailedPrecondition, in one line, where this machine or this build has no such device.
  absl::StatusOr<std::unique_ptr<ComputeDevice>> (*open)(const DeviceOptions& options);
  // A backend for one rank on an open device, which outlives it. Ranks may share a device.
  absl::StatusOr<std::unique_ptr<Backend>> (*make)(ComputeDevice* device, const BackendOptions& options);
  absl::string_view description;
};

// All known backends, sorted by name (executor/backends/registry.def).
absl::Span<const BackendEntry> Backends();

// By name; "auto" is cuda where it can be opened, else cpu. NotFound lists the known names.
absl::StatusOr<const BackendEntry*> FindBackend(absl::string_view name);

// CPU backend that splits each kernel over `threads` threads (>= 1, the caller's own among them). Results do not
// depend on `threads`. One backend serves one rank: Run is not called concurrently.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_BACKEND_H_
