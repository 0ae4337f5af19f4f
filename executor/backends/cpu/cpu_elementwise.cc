// ADD, CAST, FILL, SCALE and the kernels of kernels/pointwise.def, whose elements are independent of each other.
#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/numerics/exact192.h"

namespace weft::exec::cpu {
namespace {

// ADD of EXACT192 tensors: y = a + b, exactly.
absl::Status MergeExact(const Call& call) {
  const auto* a = static_cast<const Exact192*>(call.in[0].data);
  const auto* b = static_cast<const Exact192*>(call.in[1].data);
  auto* y = static_cast<Exact192*>(call.out[0].data);
  ForChunks(call, Elements(call.out[0]), [&](int64_t first, int64_t count) {
    Exact192 sum[kChunk];
    std::copy(a + first, a + first + count, sum);
    ExactMerge(absl::MakeSpan(b + first, count), absl::MakeSpan(sum, count));
    if (call.step.accumulate()) ExactMerge(absl::MakeSpan(y + first, count), absl::MakeSpan(sum, count));
    std::copy(sum, sum + count, y + first);
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status AddTensors(const Call& call) {
  if (call.in[0].dtype == EXACT192) return MergeExact(call);
  const bool accumulate = call.step.accumulate();
  WithComputeType(call.in, [&]<typename T>() {
    ForChunks(call, Elements(call.out[0]), [&](int64_t first, int64_t count) {
      T buffer[3][kChunk];
      const T* a = Read(call, call.in[0], first, count, buffer[0]);
      const T* b = Read(call, call.in[1], first, count, buffer[1]);
      T* y = Target(call.out[0], first, accumulate, buffer[2]);
      GetLoops<T>(call).add(a, b, count, y);
      Write(call, call.out[0], first, count, accumulate, y);
    });
  });
  return absl::OkStatus();
}

absl::Status Cast(const Call& call) {
  WithComputeType(call.in, [&]<typename T>() {
    ForChunks(call, Elements(call.out[0]), [&](int64_t first, int64_t count) {
      T buffer[kChunk];
      const T* x = Read(call, call.in[0], first, count, buffer);
      GetLoops<T>(call).store(x, StorageOf(call.out[0]), count, At(call.out[0], first));
    });
  });
  return absl::OkStatus();
}

absl::Status Fill(const Call& call) {
  if (call.out[0].dtype == EXACT192) {
    Exact192 value = {};
    const double number = call.attributes().value();
    ExactAccumulate(absl::MakeSpan(&number, 1), absl::MakeSpan(&value, 1));
    auto* y = static_cast<Exact192*>(call.out[0].data);
    ForChunks(call, Elements(call.out[0]),
              [&](int64_t first, int64_t count) { std::fill(y + first, y + first + count, value); });
    return absl::OkStatus();
  }
  const TensorView& y = call.out[0];
  ForChunks(call, Elements(y), [&](int64_t first, int64_t count) {
    double buffer[kChunk];
    std::fill(buffer, buffer + count, call.attributes().value());
    GetLoops<double>(call).store(buffer, StorageOf(y), count, At(y, first));
  });
  return absl::OkStatus();
}

absl::Status ScaleTensor(const Call& call) {
  const double factor = static_cast<const double*>(call.in[0].data)[1];
  WithComputeType(call.in.subspan(1), [&]<typename T>() {
    ForChunks(call, Elements(call.out[0]), [&](int64_t first, int64_t count) {
      T buffer[2][kChunk];
      const T* x = Read(call, call.in[1], first, count, buffer[0]);
      T* y = Target(call.out[0], first, false, buffer[1]);
      GetLoops<T>(call).scale(x, static_cast<T>(factor), count, y);
      Write(call, call.out[0], first, count, false, y);
    });
  });
  return absl::OkStatus();
}

namespace {

// Runs loop `op` on tensors of equal size.
template <size_t kInputs, size_t kOutputs>
absl::Status RunLoop(const Call& call, PointwiseOp op) {
  WithComputeType(call.in, [&]<typename T>() {
    ForChunks(call, Elements(call.out[0]), [&](int64_t first, int64_t count) {
      T buffer[kInputs + kOutputs][kChunk];
      const T* in[kInputs];
      T* out[kOutputs];
      for (size_t i = 0; i < kInputs; ++i) in[i] = Read(call, call.in[i], first, count, buffer[i]);
      for (size_t i = 0; i < kOutputs; ++i) out[i] = Target(call.out[i], first, false, buffer[kInputs + i]);
      GetLoops<T>(call).pointwise[static_cast<size_t>(op)](in, count, out);
      for (size_t i = 0; i < kOutputs; ++i) Write(call, call.out[i], first, count, false, out[i]);
    });
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status RunPointwise(const Call& call) {
  const StepAttributes& a = call.attributes();
#define POINTWISE(op, inputs, outputs, of, when) \
  if (call.step.kernel() == of && (when)) return RunLoop<inputs, outputs>(call, PointwiseOp::op);
#include "kernels/pointwise.def"
#undef POINTWISE
  return absl::InternalError(absl::StrCat("step '", call.step.name(), "': kernels/pointwise.def has no formula of ",
                                          Kernel_Name(call.step.kernel())));
}

}  // namespace weft::exec::cpu
