#include "executor/backends/cuda/cuda_backend.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/cuda_runs.h"
#include "executor/backends/cuda/kernels/elementwise.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::Status Call::LaunchError(Outcome outcome) const {
  return absl::InternalError(
      absl::StrCat("step '", step.name(), "', kernel ", Kernel_Name(step.kernel()), ": ", outcome));
}

KernelFunction* FindKernel(Kernel kernel) {
  switch (kernel) {
#define KERNEL(name, function) \
  case name:                   \
    return &function;
#include "executor/backends/cuda/kernels.def"
#undef KERNEL
    default:
#define POINTWISE(op, inputs, outputs, of, when) \
  if (kernel == of) return &RunPointwise;
#include "kernels/pointwise.def"
#undef POINTWISE
      return nullptr;
  }
}

bool HasKernel(Kernel kernel) { return FindKernel(kernel) != nullptr; }

namespace {

class CudaBackend : public Backend {
 public:
  CudaBackend(ComputeDevice* device, Libraries libraries) : resources_(device, std::move(libraries)) {}

  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    KernelFunction* kernel = FindKernel(step.kernel());
    if (kernel == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("step '", step.name(), "': the CUDA backend has no kernel ", static_cast<int>(step.kernel())));
    }
    return kernel({step, inputs, outputs, context, resources_});
  }

  absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun(absl::Span<const StepOfRun> steps) override {
    if (!resources_.libraries.joins_launches) return std::unique_ptr<StepRun>();
    return cuda::PrepareRun(resources_, steps);
  }

  std::string Digest() const override { return resources_.libraries.matmul->Digest(); }
  std::vector<std::string> Notes() const override { return {resources_.notes.begin(), resources_.notes.end()}; }

  // Prepares the backend before the first step: allocates, chooses, compiles and loads everything that the rank's steps
  // need.
  absl::Status Prepare(const BackendOptions& options) {
    const Program& program = *options.program;
    IdleMemory idle(options.idle_memory, options.idle_bytes);
    Libraries& libraries = resources_.libraries;
    libraries.matmul->UseIdleMemory(&idle);
    WEFT_RETURN_IF_ERROR(Measure(program, options.rank));
    if (program.has_evaluation()) WEFT_RETURN_IF_ERROR(Measure(program.evaluation(), options.rank));
    WEFT_RETURN_IF_ERROR(resources_.refused);
    WEFT_RETURN_IF_ERROR(resources_.staging.Settle());
    WEFT_RETURN_IF_ERROR(resources_.scratch.Settle());
    WEFT_RETURN_IF_ERROR(libraries.matmul->Settle());
    if (libraries.attention != nullptr) WEFT_RETURN_IF_ERROR(libraries.attention->Settle(idle));
    if (libraries.convolution != nullptr) WEFT_RETURN_IF_ERROR(libraries.convolution->Settle(idle));
    return Clear(idle);
  }

 private:
  // Zeros the idle memory again and waits for all enqueued work.
  absl::Status Clear(const IdleMemory& idle) {
    if (idle.touched() == 0) return absl::OkStatus();
    constexpr int64_t kWord = 4;
    Elementwise zeros;
    zeros.op = ElementwiseOp::kFill;
    zeros.out[0] = {idle.data(), Type::kFp32};
    zeros.elements = idle.touched() / kWord;
    zeros.value = 0;
    const Outcome outcome = Launch(zeros, /*stream=*/nullptr);
    if (outcome != nullptr) return absl::InternalError(absl::StrCat("launching a kernel: ", outcome));
    const char rest[kWord] = {};
    return resources_.device->CopyNow(static_cast<std::byte*>(idle.data()) + zeros.elements * kWord, rest,
                                      idle.touched() % kWord);
  }

  // Returns, for each segment, whether the rank runs it. In a program without templates every segment counts as run.
  static std::vector<bool> SegmentsOf(const Program& program, int rank) {
    std::vector<bool> segments(program.segments_size(), program.templates().empty());
    const int index = TemplateOfRank(program, rank);
    if (index < 0) return segments;
    const Template& t = program.templates(index);
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      // Actions that do not compute have 0 in this field, so segment 0 may be marked although the rank does not run it.
      // That only costs a little time.
      for (const Action& action : *list) {
        if (action.segment() >= 0 && action.segment() < program.segments_size()) segments[action.segment()] = true;
      }
    }
    return segments;
  }

  // Calls the function of every step of the rank once, with addresses that are not real, to find how much scratch the
  // steps need and what the libraries must prepare. Returns an error only for lack of memory: a step reports its other
  // errors when it runs.
  absl::Status Measure(const Program& program, int rank) {
    std::vector<TensorView> in, out;
    const std::vector<bool> runs = SegmentsOf(program, rank);
    for (int i = 0; i < program.segments_size(); ++i) {
      if (!runs[i]) continue;
      const Segment& segment = program.segments(i);
      for (const Step& step : segment.steps()) {
        KernelFunction* kernel = FindKernel(step.kernel());
        if (kernel == nullptr) continue;
        const auto views = [&](const auto& indices, std::vector<TensorView>& to) {
          to.clear();
          for (int32_t index : indices) {
            const Value& value = segment.values(index);
            to.push_back({reinterpret_cast<void*>(uintptr_t{256}), value.dtype(),
                          absl::MakeConstSpan(value.shape().data(), value.shape().size())});
          }
        };
        views(step.inputs(), in);
        views(step.outputs(), out);
        StepContext context;
        context.microbatch_sequences = std::max<int64_t>(
            1, program.recipe().microbatch_sequences() / std::max<int64_t>(1, AxisSize(program.mesh(), "z")));
        const absl::Status status = kernel({step, in, out, context, resources_, true});
        if (absl::IsResourceExhausted(status)) return status;
      }
    }
    return absl::OkStatus();
  }

  Resources resources_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(ComputeDevice* device, Libraries libraries,
                                                     const BackendOptions& options) {
  if (libraries.matmul == nullptr) return absl::InvalidArgumentError("a CUDA backend without matrix products");
  auto backend = std::make_unique<CudaBackend>(device, std::move(libraries));
  if (options.program != nullptr) WEFT_RETURN_IF_ERROR(backend->Prepare(options));
  return backend;
}

}  // namespace weft::exec::cuda
