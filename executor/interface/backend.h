// The interface of backends, which run kernels. A backend does not depend on models, stages, gradients or schedules.
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

// Everything that a step may depend on besides the values of its tensors.
struct StepContext {
  // Number of the optimizer step, from 0.
  int64_t step = 0;
  double learning_rate = 0;
  uint64_t seed = 0;
  // Global index, within the repetition, of the first microbatch that the step works on (rule P9).
  int64_t global_microbatch = 0;
  // Global sample number, counted over the run, of the step's first sequence.
  int64_t first_sample = 0;
  // Number of sequences that the rank computes, over all microbatches that the step works on. If the axis z divides a
  // microbatch's samples, only the rank's own samples count (rule P9).
  int64_t microbatch_sequences = 1;
  // Set if the ranks along axis z share the sequences of one microbatch. `own_sequences` of them belong to this rank.
  // `sample_stride` is the distance in samples from the first of them to the rank's first sequence of the next
  // microbatch. 0 = all sequences of the step are consecutive.
  int64_t own_sequences = 0;
  int64_t sample_stride = 0;
  // The values of StepAttributes.column_shift and row_shift at the rank's coordinates (rule P8); never negative.
  int64_t column_shift = 0;
  int64_t row_shift = 0;
  // ADAMW, SGD_STEP with rounding_site: number of the first element that the step updates. The elements of the whole
  // tensor are counted part after part (docs/kernels.md, "Stochastic rounding").
  int64_t first_element = 0;
  // SQUARED_NORM: true if the rank's coordinate is 0 on every axis of counted_once.
  bool writes_norm = true;
  const DataSource* data = nullptr;
  // The device stream (executor/interface/device.h) on which an asynchronous backend enqueues the step.
  int stream = 0;

  // Global sample number, counted over the run, of the step's i-th sequence.
  int64_t SampleOf(int64_t i) const {
    return own_sequences == 0 ? first_sample + i : first_sample + i / own_sequences * sample_stride + i % own_sequences;
  }
};

// One step of a StepRun, with the context fields that differ from step to step.
struct StepOfRun {
  const Step* step = nullptr;
  absl::Span<const TensorView> inputs;
  absl::Span<const TensorView> outputs;
  int64_t first_element = 0;
  bool writes_norm = true;
};

// Several steps that run as one piece of work, prepared once.
class StepRun {
 public:
  virtual ~StepRun() = default;
  // Does the same as Backend::Run of each step in turn, bit for bit.
  virtual absl::Status Run(const StepContext& context) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Runs one kernel to its end, or enqueues it on context.stream of an asynchronous device (docs/kernels.md). The data
  // that the arguments refer to must outlive the device's work, except `context`, which is read before the call
  // returns. The step fits its row in the table of kernels: the caller has checked it once (CheckStep, step_tensors.h).
  // InvalidArgument for what this backend itself cannot do; OutOfRange for values of integer operands that point
  // outside a table.
  virtual absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                           const StepContext& context) = 0;

  // Prepares steps of one action that may run as one launch (proto/util/step_runs.h): either similar steps that share
  // nothing except inputs, or a norm and the ADD beside it, in their order. Returns null if the steps are to run one by
  // one. Each step fits its row, as for Run. The data that the steps refer to outlives the result. Called before the
  // first step.
  virtual absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun([[maybe_unused]] absl::Span<const StepOfRun> steps) {
    return std::unique_ptr<StepRun>();
  }

  // 16 hexadecimal digits that stand for the backend's choices between methods that may differ in bits, such as library
  // algorithms. Runs with equal digests made the same choices. Empty if there was nothing to choose.
  virtual std::string Digest() const { return ""; }

  // Notes for the user on parts of the program that take longer than expected, and why: one line each. They are known
  // once the backend has been made.
  virtual std::vector<std::string> Notes() const { return {}; }
};

struct DeviceOptions {
  // Index of the device on this machine; -1 = the device of this process (its local rank).
  int ordinal = -1;
};

struct BackendOptions {
  // Number of threads that run a kernel, at least 1. Used by the CPU backend only.
  int threads = 1;
  // The verified program whose steps the backend may prepare before the first of them runs, so that nothing is
  // allocated or chosen later. null = the backend prepares each step when it first runs.
  const Program* program = nullptr;
  int rank = 0;
  // Zeroed device memory that nobody else uses until the backend has been made; it is then zero again. null = none. The
  // backend runs the program's library calls in it once, so that the first step has nothing left to load.
  void* idle_memory = nullptr;
  int64_t idle_bytes = 0;
  // CUDA: how the algorithms of matrix products are chosen: "off", "write FILE" or "read FILE".
  std::string tuning = "off";
};

struct BackendEntry {
  absl::string_view name;
  // FailedPrecondition, in one line, if this machine or this build has no such device.
  absl::StatusOr<std::unique_ptr<ComputeDevice>> (*open)(const DeviceOptions& options);
  // Makes a backend for one rank on an open device, which must outlive the backend. Ranks may share a device.
  absl::StatusOr<std::unique_ptr<Backend>> (*make)(ComputeDevice* device, const BackendOptions& options);
  absl::string_view description;
};

// All known backends, sorted by name (executor/backends/registry.def).
absl::Span<const BackendEntry> Backends();

// Finds a backend by name; "auto" is cuda if it can be opened, else cpu. The NotFound error lists the known names.
absl::StatusOr<const BackendEntry*> FindBackend(absl::string_view name);

// CPU backend that splits each kernel over `threads` threads (>= 1, the caller's own among them). Results do not
// depend on `threads`. One backend serves one rank: Run is not called concurrently.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_BACKEND_H_
