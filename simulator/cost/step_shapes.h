// The shape of the product that a step computes, for cost models that go by shape.
#ifndef WEFT_SIMULATOR_COST_STEP_SHAPES_H_
#define WEFT_SIMULATOR_COST_STEP_SHAPES_H_

#include <cstdint>

#include "proto/program.pb.h"

namespace weft::sim {

// `batch` products [rows x depth] [depth x columns], each computed as often as the step's flops say. rows = 0 means no
// product.
struct StepShapes {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  int64_t batch = 0;
  // The segment of the step's tensors; null if only the extents are known.
  const Segment* segment = nullptr;
};

// For attention these are the products of one head of one sample: rows and columns are the sequence length, depth is
// the head's. `segment` must be verified; the result refers to it.
StepShapes ShapesOf(const Segment& segment, const Step& step);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_STEP_SHAPES_H_
