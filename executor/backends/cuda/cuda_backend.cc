#include "executor/backends/cuda/cuda_backend.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/cuda_runs.h"
#include "proto/status.h"

namespace weft::cuda {

absl::Status Call::LaunchError(Outcome outcome) const {
  return absl::InternalError(
      absl::StrCat("step '", step.name(), "', kernel ", Kernel_Name(step.kernel()), ": ", outcome));
}

absl::Status CheckTensors(const Call& call, size_t inputs, size_t outputs, uint32_t floating, uint32_t integer) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("step '", call.step.name(), "', kernel ", Kernel_Name(call.step.kernel()), ": ", parts...));
  };
  if (call.in.size() != inputs || call.out.size() != outputs) {
    return error("takes ", inputs, " inputs and ", outputs, " outputs, given ", call.in.size(), " and ",
                 call.out.size());
  }
  for (size_t i = 0; i < inputs + outputs; ++i) {
    const bool is_input = i < inputs;
    const DType dtype = is_input ? call.in[i].dtype : call.out[i - inputs].dtype;
    const char* side = is_input ? "input " : "output ";
    const size_t index = is_input ? i : i - inputs;
    if ((floating >> i & 1) != 0 && !IsFloating(dtype)) {
      return error(side, index, " is ", DType_Name(dtype), "; the CUDA backend takes FP64, FP32, BF16 or FP16");
    }
    if ((integer >> i & 1) != 0 && dtype != INT32) {
      return error(side, index, " is ", DType_Name(dtype), "; it must be INT32");
    }
  }
  return absl::OkStatus();
}

KernelFunction* FindKernel(Kernel kernel) {
  switch (kernel) {
#define KERNEL(name, function) \
  case name:                   \
    return &function;
#include "executor/backends/cuda/kernels.def"
#undef KERNEL
    default:
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
    return cuda::PrepareRun(resources_, steps);
  }

  std::string Digest() const override { return resources_.libraries.matmul->Digest(); }

  // Every step of the program once, without memory: how much scratch they need, and what libraries have to prepare. An
  // error is left to the step itself, which knows its context; but not one of memory.
  absl::Status Measure(const Program& program) {
    std::vector<TensorView> in, out;
    for (const Segment& segment : program.segments()) {
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
        context.microbatch_sequences = program.recipe().microbatch_sequences();
        const absl::Status status = kernel({step, in, out, context, resources_, true});
        if (absl::IsResourceExhausted(status)) return status;
      }
    }
    WEFT_RETURN_IF_ERROR(resources_.staging.Settle());
    return resources_.scratch.Settle();
  }

 private:
  Resources resources_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(ComputeDevice* device, Libraries libraries,
                                                     const BackendOptions& options) {
  if (libraries.matmul == nullptr) return absl::InvalidArgumentError("a CUDA backend without matrix products");
  auto backend = std::make_unique<CudaBackend>(device, std::move(libraries));
  if (options.program != nullptr) WEFT_RETURN_IF_ERROR(backend->Measure(*options.program));
  return backend;
}

}  // namespace weft::cuda
