// The CPU backend: dispatches steps to kernels.
#include "executor/backends/cpu/cpu.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/interface/backend.h"

namespace weft::exec {
namespace cpu {

KernelFunction* FindKernel(Kernel kernel) {
  switch (kernel) {
#define KERNEL(name, function) \
  case name:                   \
    return &function;
#include "executor/backends/cpu/cpu_kernels.def"
#undef KERNEL
    default:
#define POINTWISE(op, inputs, outputs, of, when) \
  if (kernel == of) return &RunPointwise;
#include "kernels/pointwise.def"
#undef POINTWISE
      return nullptr;
  }
}

namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(int threads, const LoopTable& loops) : workspace_(std::max(threads, 1), loops) {}

  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    KernelFunction* kernel = FindKernel(step.kernel());
    if (kernel == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("step '", step.name(), "': the CPU backend has no kernel ", static_cast<int>(step.kernel())));
    }
    return kernel({step, inputs, outputs, context, workspace_});
  }

 private:
  Workspace workspace_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackendWithLoops(int threads, const LoopTable& loops) {
  return std::make_unique<CpuBackend>(threads, loops);
}

}  // namespace cpu

std::unique_ptr<Backend> MakeCpuBackend(int threads) { return cpu::MakeCpuBackendWithLoops(threads, cpu::BestLoops()); }

}  // namespace weft::exec
