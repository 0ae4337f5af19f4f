#include "compiler/inputs/usual_microbatch.h"

namespace weft {

std::optional<int64_t> UsualMicrobatchOf(const Runtime& runtime, int64_t batch, int64_t replicas, int64_t stages) {
  if (!runtime.has_usual_microbatch() || replicas < 1 || stages < 1 || batch % replicas != 0) return std::nullopt;
  const UsualMicrobatch& usual = runtime.usual_microbatch();
  const int64_t share = batch / replicas;
  std::optional<int64_t> largest;
  for (int64_t micro = 1; micro <= usual.most() && micro <= share; micro *= 2) {
    const int64_t microbatches = share / micro;
    if (share % micro == 0 && (stages == 1 || microbatches / stages >= usual.per_stage())) largest = micro;
  }
  return largest;
}

}  // namespace weft
