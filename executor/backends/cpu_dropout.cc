// DROPOUT.
#include "executor/backends/cpu_kernel.h"
#include "executor/backends/cpu_random.h"
#include "proto/status.h"

namespace weft::cpu {

absl::Status Dropout(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  const double p = call.attributes().dropout();
  const int64_t elements = Elements(call.in[0]);
  const int64_t per_sample = elements / call.context.microbatch_sequences;
  WEFT_RETURN_IF_ERROR(CheckDropout(call, per_sample));
  WithComputeType(call.in, [&]<typename T>() {
    const T factor = static_cast<T>(1 / (1 - p));
    ForChunks(call, elements, [&](int64_t begin, int64_t chunk) {
      // A chunk may hold parts of several samples.
      for (int64_t first = begin; first < begin + chunk;) {
        const int64_t sample = first / per_sample;
        const int64_t count = std::min(begin + chunk, (sample + 1) * per_sample) - first;
        T buffer[2][kChunk];
        uint32_t scratch[kChunk + 8];
        const uint32_t* words =
            DropoutWords(call, call.context.first_sample + sample).Get(first - sample * per_sample, count, scratch);
        const T* x = Read(call, call.in[0], first, count, buffer[0]);
        T* y = Target(call.out[0], first, false, buffer[1]);
        GetLoops<T>(call).mask(x, words, DropoutThreshold(p), factor, count, y);
        Write(call, call.out[0], first, count, false, y);
        first += count;
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::cpu
