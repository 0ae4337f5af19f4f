// The shape of the product that a step computes, for cost models that depend on the shape.
#ifndef WEFT_SIMULATOR_COST_STEP_SHAPES_H_
#define WEFT_SIMULATOR_COST_STEP_SHAPES_H_

#include <cstdint>

#include "proto/program.pb.h"

namespace weft::sim {

// `batch` products [rows x depth] [depth x columns]. The step's flops determine how often each product is computed.
// rows = 0 means that the step computes no product.
struct StepShapes {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  int64_t batch = 0;
  // The segment of the step's tensors; null if only the extents are known.
  const Segment* segment = nullptr;
};

// Returns the shape of a step. For attention, the products are those of one head of one sample: rows and columns are
// the sequence length, and depth is the depth of the head. `segment` must be verified and must outlive the result.
StepShapes ShapesOf(const Segment& segment, const Step& step);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_STEP_SHAPES_H_
