// Which collectives of a template sum which gradients.
#ifndef WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_
#define WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_

#include <map>

#include "proto/program.pb.h"

namespace weft {

struct GradientSums {
  // Of buffers that hold a gradient, or what a sum makes of one (with ZeRO 1 the rank's part): the tensor.
  std::map<int, int> tensor_of;
  // By tensor: index in the body of the last sum of its gradient.
  std::map<int, int> last_sum;
};

GradientSums GradientSumsOf(const Template& t);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_
