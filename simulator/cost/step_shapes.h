// The shape of the product that a step computes, for cost models by shape.
#ifndef WEFT_SIMULATOR_COST_STEP_SHAPES_H_
#define WEFT_SIMULATOR_COST_STEP_SHAPES_H_

#include <cstdint>

#include "proto/program.pb.h"

namespace weft::sim {

// `batch` products [rows x depth] [depth x columns], each as often as the step's flops say; rows = 0: none.
struct StepShapes {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  int64_t batch = 0;
  // Where the step's tensors are; null where only the extents are known.
  const Segment* segment = nullptr;
};

// Of attention, the products of one head of one sample: rows and columns are the sequence's, depth is the head's.
// `segment`, to which the result refers, has been verified.
StepShapes ShapesOf(const Segment& segment, const Step& step);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_STEP_SHAPES_H_
