// Finds which collectives of a template sum which gradients.
#ifndef WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_
#define WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_

#include <map>

#include "proto/program.pb.h"

namespace weft {

struct GradientSums {
  // Buffer that holds a gradient, or the result of its sum (with ZeRO 1 the rank's part) -> tensor.
  std::map<int, int> tensor_of;
  // Tensor -> index in the body of the last sum of its gradient.
  std::map<int, int> last_sum;
};

GradientSums GradientSumsOf(const Template& t);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_
