// Stochastic rounding of weights and moments to half precision (docs/kernels.md): its random numbers, and the plain
// loop that the kernels of backends match bit for bit.
#ifndef WEFT_EXECUTOR_NUMERICS_STOCHASTIC_ROUNDING_H_
#define WEFT_EXECUTOR_NUMERICS_STOCHASTIC_ROUNDING_H_

#include <cstdint>

#include "executor/numerics/philox.h"
#include "proto/types.pb.h"

namespace weft::exec {

// Selects the random numbers of the counter generator. Element e of the tensor uses the 16-bit number e mod 8 of the
// four 32-bit words at counter e / 8; the lower half of a word comes first.
struct RoundingNumbers {
  uint64_t seed = 0;
  // Optimizer step, from 0.
  int64_t step = 0;
  // Index in Program.tensors.
  int64_t tensor = 0;
  // Weights and each of the moments have separate random numbers.
  PhiloxPurpose purpose = PhiloxPurpose::kWeightRounding;
};

// Rounds `count` values to BF16 or FP16. They are the tensor's elements from `first_element` on.
void RoundAtRandom(const float* from, int64_t count, const RoundingNumbers& numbers, int64_t first_element, DType to,
                   void* target);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_STOCHASTIC_ROUNDING_H_
