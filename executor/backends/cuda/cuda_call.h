// Code shared by the files that map steps to launches. Internal to the CUDA backend.
//
// A function of kernels.def fills the plain struct of a launch (kernels/*.h) and passes it to call.Launch, or calls a
// library. The caller has checked the step (CheckStep, step_tensors.h), so a function refuses only what this backend
// cannot do and what depends on the context. A function gets all its scratch memory from one call of call.Scratch.
//
// If the backend has a program, it calls the functions of the rank's steps before the first step, to measure their
// scratch memory. Pointers are not real then. Launch, Upload, Scratch and Table allow for that; before it uses memory
// in any other way, or runs a library, a function must return if call.measuring is true.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CALL_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CALL_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/cuda_resources.h"
#include "executor/backends/cuda/kernels/types.h"
#include "executor/interface/backend.h"
#include "executor/interface/step_tensors.h"
#include "proto/program.pb.h"

namespace weft::exec::cuda {

// Objects that all steps share. They live as long as the backend.
struct Resources {
  explicit Resources(ComputeDevice* on, Libraries with)
      : device(on), libraries(std::move(with)), scratch(on), staging(on), tables(on), fixed_tables(on) {}

  ComputeDevice* device;
  Libraries libraries;
  // A CPU backend that makes the tensors which a step loads from outside the program: samples and noise.
  std::unique_ptr<Backend> host = MakeCpuBackend(1);
  ScratchMemory scratch;
  Staging staging;
  KeptTables tables;
  FixedTables fixed_tables;
  // The notes that Backend::Notes returns.
  std::set<std::string> notes;
  // Error of the first product that the library refused while measuring.
  absl::Status refused;
};

// Calls the function Launch that the header of `Args` declares. Inside Call, the member Launch hides that function.
template <typename Args>
Outcome LaunchArgs(const Args& args, void* stream) {
  return Launch(args, stream);
}

struct Call {
  const Step& step;
  absl::Span<const TensorView> in;
  absl::Span<const TensorView> out;
  const StepContext& context;
  Resources& resources;
  // True while the backend measures its program. Shapes and types are real then; addresses are not.
  bool measuring = false;

  const StepAttributes& attributes() const { return step.attributes(); }
  StreamRef stream() const {
    return {context.stream, measuring ? nullptr : resources.device->NativeStream(context.stream)};
  }

  // Enqueues a launch; `args` is its struct.
  template <typename Args>
  absl::Status Launch(const Args& args) const {
    if (measuring) {
      // An error is ignored here: the step returns it again when it runs.
      LaunchArgs(args, LoadOnly());
      return absl::OkStatus();
    }
    const Outcome outcome = LaunchArgs(args, stream().native);
    return outcome == nullptr ? absl::OkStatus() : LaunchError(outcome);
  }

  // Returns device memory that belongs to this call until its launches have run. It is not zeroed. Call it once per
  // step.
  absl::StatusOr<void*> Scratch(int64_t bytes) const {
    if (!measuring) return resources.scratch.Get(context.stream, bytes);
    resources.scratch.Reserve(bytes);
    return reinterpret_cast<void*>(uintptr_t{256});
  }

  // Copies bytes made by the host to `to`, in stream order. `fill` writes them into the memory that it gets.
  absl::Status Upload(void* to, int64_t bytes, absl::FunctionRef<absl::Status(void*)> fill) const {
    if (!measuring) return resources.staging.Upload(context.stream, to, bytes, fill);
    resources.staging.Reserve(bytes);
    return absl::OkStatus();
  }

  // Returns a table whose content depends only on the key. If the table is new, the caller must fill it.
  absl::StatusOr<KeptTables::Table> Table(const std::vector<double>& key, int64_t bytes) const {
    if (!measuring) return resources.tables.Get(context.stream, key, bytes);
    const absl::Status status = resources.tables.Prepare(key, bytes);
    if (!status.ok()) return status;
    return KeptTables::Table{reinterpret_cast<void*>(uintptr_t{256}), false};
  }

  // While measuring: announces a product to the library and keeps the first refusal.
  absl::Status Prepare(const MatmulShape& shape) const {
    const absl::Status status = resources.libraries.matmul->Prepare(shape);
    if (!status.ok()) {
      resources.refused.Update(
          absl::Status(status.code(), absl::StrCat("step '", step.name(), "': ", status.message())));
    }
    return status;
  }

  // Returns an InvalidArgument error that names the step.
  template <typename... Parts>
  absl::Status Error(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat("step '", step.name(), "': ", parts...));
  }

 private:
  absl::Status LaunchError(Outcome outcome) const;
};

inline Type TypeOf(const TensorView& view) { return static_cast<Type>(view.dtype); }
inline Array ArrayOf(const TensorView& view) { return {view.data, TypeOf(view)}; }
inline int64_t ElementBytes(Type type) {
  return type == Type::kFp64                          ? 8
         : type == Type::kExact192                    ? 24
         : type == Type::kUint8                       ? 1
         : type == Type::kBf16 || type == Type::kFp16 ? 2
                                                      : 4;
}
// True if a kernel with these inputs computes in double, that is, if one of the inputs is FP64.
inline bool ComputesInDouble(absl::Span<const TensorView> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const TensorView& view) { return view.dtype == FP64; });
}

using KernelFunction = absl::Status(const Call& call);
#define KERNEL(kernel, function) KernelFunction function;
#include "executor/backends/cuda/kernels.def"
#undef KERNEL
KernelFunction RunPointwise;

// ADD and FILL of EXACT192. AddTensors and Fill delegate to them.
KernelFunction AddExact;
KernelFunction FillExact;

// Returns null if this backend has no such kernel. GROUP_* are collectives, which no backend runs.
KernelFunction* FindKernel(Kernel kernel);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CALL_H_
