// SQUARED_NORM, NORM_TOTAL: norms of gradients.
#include <algorithm>
#include <cmath>

#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/numerics/exact192.h"

namespace weft::exec::cpu {
namespace {

// Sums the squares of each piece of fixed size, then adds these sums in order.
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

// Rounds each square to double and then to the grid of Exact192. The sum of the rounded squares is exact in any order.
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
  const int64_t slot = call.attributes().slot();
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
