// EXACT_ACCUMULATE, EXACT_ROUND: order-independent gradient accumulation (executor/numerics/exact192.h).
#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/numerics/exact192.h"

namespace weft::exec::cpu {
absl::Status ExactAccumulateTensor(const Call& call) {
  const TensorView& x = call.in[0];
  auto* accumulators = static_cast<Exact192*>(call.out[0].data);
  ForChunks(call, Elements(x), [&](int64_t first, int64_t count) {
    const absl::Span<Exact192> range = absl::MakeSpan(accumulators + first, count);
    if (x.dtype == FP64) {
      ExactAccumulate(absl::MakeSpan(reinterpret_cast<const double*>(At(x, first)), count), range);
    } else if (x.dtype == FP32) {
      ExactAccumulate(absl::MakeSpan(reinterpret_cast<const float*>(At(x, first)), count), range);
    } else if (x.dtype == FP16) {
      float values[kChunk];
      GetLoops<float>(call).load(At(x, first), Storage::kFp16, count, values);
      ExactAccumulate(absl::MakeConstSpan(values, count), range);
    } else {
      ExactAccumulateBf16(absl::MakeSpan(reinterpret_cast<const uint16_t*>(At(x, first)), count), range);
    }
  });
  return absl::OkStatus();
}

absl::Status ExactRoundTensor(const Call& call) {
  const TensorView& y = call.out[0];
  const int precision = y.dtype == FP64 ? 53 : y.dtype == FP32 ? 24 : 8;
  const auto* accumulators = static_cast<const Exact192*>(call.in[0].data);
  ForChunks(call, Elements(y), [&](int64_t first, int64_t count) {
    double rounded[kChunk];
    for (int64_t i = 0; i < count; ++i) {
      // FP16 subnormals have fewer bits than other numbers. After rounding to odd here, the rounding on storing gives
      // the same result as a single rounding.
      rounded[i] =
          y.dtype == FP16 ? ExactRoundToOdd(accumulators[first + i]) : ExactRound(accumulators[first + i], precision);
    }
    GetLoops<double>(call).store(rounded, StorageOf(y), count, At(y, first));
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
