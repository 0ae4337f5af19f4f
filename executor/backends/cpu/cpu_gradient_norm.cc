// SQUARED_NORM, NORM_TOTAL: norms of gradients.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/numerics/exact192.h"
#include "proto/util/status.h"

namespace weft::exec::cpu {
namespace {

absl::Status CheckNorms(const Call& call, const TensorView& view, const char* what) {
  if (view.dtype == FP64 || view.dtype == EXACT192) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("step '", call.step.name(), "', kernel ",
                                                 Kernel_Name(call.step.kernel()), ": ", what, " is ",
                                                 DType_Name(view.dtype), "; it must be FP64 or EXACT192"));
}

absl::Status CheckIndex(const Call& call, int64_t index, const TensorView& view, const char* what) {
  if (index >= 0 && index < Elements(view)) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("step '", call.step.name(), "': ", what, " ", index, "; the output has ",
                                            Elements(view), " elements"));
}

// Sums fixed pieces and adds them in order.
template <typename T>
double SumOfSquares(const Call& call, int64_t n) {
  constexpr int64_t kPiece = 16 * kChunk;
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  double* sums = call.workspace.shared.Get<double>(std::max<int64_t>(pieces, 1));
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
  double total = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) total += sums[piece];
  return total;
}

// Rounds each square to double and then to the grid. The sum of the rounded squares is exact in any order.
template <typename T>
Exact192 ExactSumOfSquares(const Call& call, int64_t n) {
  constexpr int64_t kPiece = 16 * kChunk;
  constexpr int64_t kLanes = 64;
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  Exact192* sums = call.workspace.shared.Get<Exact192>(std::max<int64_t>(pieces, 1));
  call.pool().Run(pieces, [&](int64_t piece, int) {
    const int64_t end = std::min(n, (piece + 1) * kPiece);
    Exact192 lanes[kLanes] = {};
    for (int64_t first = piece * kPiece; first < end; first += kLanes) {
      const int64_t count = std::min(kLanes, end - first);
      T buffer[kLanes];
      const T* x = Read(call, call.in[0], first, count, buffer);
      double squares[kLanes];
      for (int64_t i = 0; i < count; ++i) squares[i] = static_cast<double>(x[i]) * static_cast<double>(x[i]);
      ExactAccumulate(absl::MakeConstSpan(squares, count), absl::MakeSpan(lanes, count));
    }
    for (int64_t i = 1; i < kLanes; ++i) ExactMerge(absl::MakeConstSpan(lanes + i, 1), absl::MakeSpan(lanes, 1));
    sums[piece] = lanes[0];
  });
  Exact192 total = {};
  for (int64_t piece = 0; piece < pieces; ++piece) {
    ExactMerge(absl::MakeConstSpan(sums + piece, 1), absl::MakeSpan(&total, 1));
  }
  return total;
}

}  // namespace

absl::Status SquaredNorm(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b1));
  WEFT_RETURN_IF_ERROR(CheckNorms(call, call.out[0], "output 0"));
  const int64_t slot = call.attributes().slot();
  WEFT_RETURN_IF_ERROR(CheckIndex(call, slot, call.out[0], "slot"));
  const int64_t n = call.context.writes_norm ? Elements(call.in[0]) : 0;
  WithComputeType(call.in, [&]<typename T>() {
    if (call.out[0].dtype == EXACT192) {
      static_cast<Exact192*>(call.out[0].data)[slot] = ExactSumOfSquares<T>(call, n);
    } else {
      static_cast<double*>(call.out[0].data)[slot] = SumOfSquares<T>(call, n);
    }
  });
  return absl::OkStatus();
}

absl::Status NormTotal(const Call& call) {
  const bool dynamic = call.in.size() == 2;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, dynamic ? 2 : 1, 1, dynamic ? 0b110 : 0b10));
  WEFT_RETURN_IF_ERROR(CheckNorms(call, call.in[0], "input 0"));
  if (dynamic && (call.in[1].dtype != FP64 || Elements(call.in[1]) != 3)) {
    return absl::InvalidArgumentError(absl::StrCat("step '", call.step.name(), "': the scale is ", Elements(call.in[1]),
                                                   " elements of ", DType_Name(call.in[1].dtype),
                                                   "; it must be 3 of FP64"));
  }
  if (call.out[0].dtype != FP64) {
    return absl::InvalidArgumentError(absl::StrCat("step '", call.step.name(), "': output 0 is ",
                                                   DType_Name(call.out[0].dtype), "; it must be FP64"));
  }
  WEFT_RETURN_IF_ERROR(CheckIndex(call, 1, call.out[0], "element"));
  const bool exact = call.in[0].dtype == EXACT192;
  auto* norm = static_cast<double*>(call.out[0].data);
  double total = 0;
  for (int64_t i = 0; i < Elements(call.in[0]); ++i) {
    total += exact ? ExactRound(static_cast<const Exact192*>(call.in[0].data)[i], 53)
                   : static_cast<const double*>(call.in[0].data)[i];
  }
  const double clip = call.attributes().clip_norm();
  const double fixed = call.attributes().loss_scale() > 0 ? call.attributes().loss_scale() : 1;
  const double scale = dynamic ? static_cast<const double*>(call.in[1].data)[0] : fixed;
  norm[0] = std::sqrt(total) / scale;
  norm[1] = (clip == 0 ? 1 : std::min(1.0, clip / (norm[0] + 1e-6))) / scale;
  if (dynamic && !std::isfinite(norm[0])) norm[1] = 0;
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
