// CROSS_ENTROPY and its backward, SQUARED_NORM, NORM_TOTAL.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu_kernel.h"
#include "proto/status.h"

namespace weft::cpu {
namespace {

absl::Status CheckFp64(const Call& call, const TensorView& view, const char* what) {
  if (view.dtype == FP64) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("step '", call.step.name(), "', kernel ",
                                                 Kernel_Name(call.step.kernel()), ": ", what, " is ",
                                                 DType_Name(view.dtype), "; it must be FP64"));
}

absl::Status CheckTargets(const Call& call, const TensorView& targets) {
  const auto* target = static_cast<const int32_t*>(targets.data);
  for (int64_t i = 0; i < Elements(targets); ++i) {
    if (target[i] < -1 || target[i] >= call.attributes().vocabulary()) {
      return absl::OutOfRangeError(absl::StrCat("step '", call.step.name(), "': target ", i, " is ", target[i],
                                                "; the vocabulary has ", call.attributes().vocabulary(), " entries"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIndex(const Call& call, int64_t index, const TensorView& view, const char* what) {
  if (index >= 0 && index < Elements(view)) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("step '", call.step.name(), "': ", what, " ", index, "; the output has ",
                                            Elements(view), " elements"));
}

}  // namespace

absl::Status CrossEntropy(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 2, 0b1101, 0b10));
  WEFT_RETURN_IF_ERROR(CheckFp64(call, call.out[1], "output 1"));
  WEFT_RETURN_IF_ERROR(CheckTargets(call, call.in[1]));
  WEFT_RETURN_IF_ERROR(CheckIndex(call, call.context.global_microbatch, call.out[1], "global microbatch"));
  const TensorView& logits = call.in[0];
  const int64_t columns = Columns(logits), rows = Rows(logits), vocabulary = call.attributes().vocabulary();
  const auto* targets = static_cast<const int32_t*>(call.in[1].data);
  double* losses = call.workspace.shared.Get<double>(rows);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, rows, columns, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(vocabulary);
      const T* x = Read(call, logits, row * columns, vocabulary, buffer);
      const T lse = GetLoops<T>(call).log_sum_exp(x, vocabulary);
      GetLoops<T>(call).store(&lse, StorageOf(call.out[0]), 1, At(call.out[0], row));
      // In T first: lse and the logit are close, so the difference is all but exact.
      losses[row] = targets[row] < 0 ? 0 : static_cast<double>(lse) - static_cast<double>(x[targets[row]]);
    });
  });
  double total = 0;
  for (int64_t row = 0; row < rows; ++row) total += losses[row];
  static_cast<double*>(call.out[1].data)[call.context.global_microbatch] = call.attributes().loss_weight() * total;
  return absl::OkStatus();
}

absl::Status CrossEntropyBackward(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 3, 1, 0b1011, 0b100));
  WEFT_RETURN_IF_ERROR(CheckTargets(call, call.in[2]));
  const TensorView& logits = call.in[0];
  const int64_t columns = Columns(logits), rows = Rows(logits), vocabulary = call.attributes().vocabulary();
  const auto* targets = static_cast<const int32_t*>(call.in[2].data);
  WithComputeType(call.in, [&]<typename T>() {
    const T weight = static_cast<T>(call.attributes().loss_weight());
    ForRows(call, rows, columns, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * columns);
      T* dx = Target(call.out[0], row * columns, false, buffer + columns);
      if (targets[row] < 0) {
        std::fill(dx, dx + columns, T(0));
      } else {
        const T* x = Read(call, logits, row * columns, vocabulary, buffer);
        T lse;
        GetLoops<T>(call).load(At(call.in[1], row), StorageOf(call.in[1]), 1, &lse);
        GetLoops<T>(call).exp(x, T(1), lse, weight, vocabulary, dx);
        dx[targets[row]] -= weight;
        std::fill(dx + vocabulary, dx + columns, T(0));
      }
      Write(call, call.out[0], row * columns, columns, false, dx);
    });
  });
  return absl::OkStatus();
}

// Sums of fixed pieces, added in order.
absl::Status SquaredNorm(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  WEFT_RETURN_IF_ERROR(CheckFp64(call, call.out[0], "output 0"));
  const int64_t slot = call.attributes().slot(), n = Elements(call.in[0]);
  WEFT_RETURN_IF_ERROR(CheckIndex(call, slot, call.out[0], "slot"));
  constexpr int64_t kPiece = 16 * kChunk;
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  double* sums = call.workspace.shared.Get<double>(std::max<int64_t>(pieces, 1));
  WithComputeType(call.in, [&]<typename T>() {
    call.pool().Run(pieces, [&](int64_t piece, int) {
      const int64_t end = std::min(n, (piece + 1) * kPiece);
      double sum = 0;
      for (int64_t first = piece * kPiece; first < end; first += kChunk) {
        const int64_t count = std::min(kChunk, end - first);
        T buffer[kChunk];
        sum += GetLoops<T>(call).squared_norm(Read(call, call.in[0], first, count, buffer), count);
      }
      sums[piece] = sum;
    });
  });
  double total = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) total += sums[piece];
  static_cast<double*>(call.out[0].data)[slot] = total;
  return absl::OkStatus();
}

absl::Status NormTotal(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  WEFT_RETURN_IF_ERROR(CheckFp64(call, call.in[0], "input 0"));
  WEFT_RETURN_IF_ERROR(CheckFp64(call, call.out[0], "output 0"));
  WEFT_RETURN_IF_ERROR(CheckIndex(call, 1, call.out[0], "element"));
  const auto* norms = static_cast<const double*>(call.in[0].data);
  auto* norm = static_cast<double*>(call.out[0].data);
  double total = 0;
  for (int64_t i = 0; i < Elements(call.in[0]); ++i) total += norms[i];
  const double clip = call.attributes().clip_norm();
  norm[0] = std::sqrt(total);
  norm[1] = clip == 0 ? 1 : std::min(1.0, clip / (norm[0] + 1e-6));
  return absl::OkStatus();
}

}  // namespace weft::cpu
