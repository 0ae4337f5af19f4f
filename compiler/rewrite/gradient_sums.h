// Finds, for each gradient of a template, its buffers and the last collective that sums it.
#ifndef WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_
#define WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_

#include <map>

#include "proto/program.pb.h"

namespace weft {

struct GradientSums {
  // Maps a buffer that holds a gradient or the sum of a gradient (with ZeRO 1, the rank's part of the sum) to the
  // tensor.
  std::map<int, int> tensor_of;
  // Maps a tensor to the index, in the body, of the last collective that sums its gradient.
  std::map<int, int> last_sum;
};

GradientSums GradientSumsOf(const Template& t);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_GRADIENT_SUMS_H_
