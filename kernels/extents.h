// The extents that the operands of a step have in common, such as the m, n and k of a product.
#ifndef WEFT_KERNELS_EXTENTS_H_
#define WEFT_KERNELS_EXTENTS_H_

#include <cstdint>

#include "kernels/row.h"
#include "proto/program.pb.h"

namespace weft::kernels {

// The extent of each name in the shapes of the step's row; 0 if the row has no such name or the step does not fit its
// row.
struct Extents {
  int64_t values[static_cast<int>(Symbol::kSymbols)] = {};
  int64_t operator[](Symbol s) const { return values[static_cast<int>(s)]; }
};
Extents ExtentsOf(const Segment& segment, const Step& step);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_EXTENTS_H_
