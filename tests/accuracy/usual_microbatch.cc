#include "tests/accuracy/usual_microbatch.h"

namespace weft {

int64_t UsualMicrobatch(absl::string_view runtime, int64_t batch, int64_t replicas, int64_t stages) {
  const bool scripted = runtime == "megatron-2020" || runtime == "megatron-2022";
  if (!scripted || replicas < 1 || batch % replicas != 0) return 1;
  // Three to twelve are within a factor of two of every row of the script; five and six have nine of them.
  constexpr int64_t kMost = 16, kPerStage = 6;
  const int64_t share = batch / replicas, least = stages > 1 ? kPerStage * stages : 1;
  for (int64_t micro = kMost; micro > 1; micro /= 2) {
    if (share % micro == 0 && share / micro >= least) return micro;
  }
  return 1;
}

}  // namespace weft
