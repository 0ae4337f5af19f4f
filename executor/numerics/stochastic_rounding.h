// Stochastic rounding of weights and moments to half precision (docs/kernels.md): the numbers behind it, and the plain
// loop, which kernels of backends equal bit for bit.
#ifndef WEFT_EXECUTOR_NUMERICS_STOCHASTIC_ROUNDING_H_
#define WEFT_EXECUTOR_NUMERICS_STOCHASTIC_ROUNDING_H_

#include <cstdint>

#include "executor/numerics/philox.h"
#include "proto/types.pb.h"

namespace weft::exec {

// Which numbers of the counter generator they are. Element e of the tensor has the 16-bit number e mod 8 of the four
// words at counter e / 8, the lower half of a word first.
struct RoundingNumbers {
  uint64_t seed = 0;
  // Of the optimizer, from 0.
  int64_t step = 0;
  // Index in Program.tensors.
  int64_t tensor = 0;
  // Weights and each of the moments have numbers of their own.
  PhiloxPurpose purpose = PhiloxPurpose::kWeightRounding;
};

// Rounds `count` values, which are elements `first_element` and following, to BF16 or FP16.
void RoundAtRandom(const float* from, int64_t count, const RoundingNumbers& numbers, int64_t first_element, DType to,
                   void* target);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_STOCHASTIC_ROUNDING_H_
