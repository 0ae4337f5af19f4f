#include "simulator/cost/step_shapes.h"

#include <algorithm>

namespace weft::sim {
namespace {

int64_t Extent(const Segment& segment, int value, int dimension) {
  const Value& v = segment.values(value);
  return dimension < v.shape_size() ? v.shape(dimension) : 1;
}

StepShapes Attention(const Step& step, int64_t rows, int64_t columns_of_heads) {
  const int64_t heads = step.attributes().heads(), sequence = step.attributes().sequence();
  if (heads < 1 || sequence < 1) return {};
  return {sequence, sequence, std::max<int64_t>(1, columns_of_heads / heads),
          std::max<int64_t>(1, rows / sequence) * heads};
}

// For convolutions: an output [rows x columns] whose depth follows from the flops.
StepShapes ByFlops(const Step& step, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1) return {};
  const double depth =
      static_cast<double>(step.work().flops()) / 2 / static_cast<double>(rows) / static_cast<double>(columns);
  return {rows, columns, std::max<int64_t>(1, static_cast<int64_t>(depth)), 1};
}

StepShapes ProductOf(const Segment& segment, const Step& step) {
  if (step.work().flops() <= 0 || step.inputs_size() == 0 || step.outputs_size() == 0) return {};
  const int in = step.inputs(0), out = step.outputs(0);
  switch (step.kernel()) {
    case MATMUL:
      return {Extent(segment, out, 0), Extent(segment, out, 1),
              Extent(segment, in, step.attributes().transpose_a() ? 0 : 1), 1};
    case ATTENTION:
    case ATTENTION_VALUES:
      return Attention(step, Extent(segment, out, 0), Extent(segment, out, 1));
    case ATTENTION_BACKWARD:
    case ATTENTION_VALUES_BACKWARD:
      // The first input is the gradient of the forward's output.
      return Attention(step, Extent(segment, in, 0), Extent(segment, in, 1));
    case ATTENTION_SCORES: {
      // The input is q, or q, k and v side by side.
      const int64_t columns = Extent(segment, in, 1);
      return Attention(step, Extent(segment, in, 0), step.inputs_size() > 1 ? columns : columns / 3);
    }
    case ATTENTION_SCORES_BACKWARD: {
      const int64_t columns = Extent(segment, step.inputs(step.inputs_size() > 1 ? 1 : 0), 1);
      return Attention(step, Extent(segment, in, 0), step.inputs_size() > 2 ? columns : columns / 3);
    }
    case CONV2D:
    case CONV2D_BACKWARD:
      return ByFlops(step, Extent(segment, out, 0), Extent(segment, out, 1));
    case CONV2D_BACKWARD_WEIGHT: {
      int64_t columns = 1;
      for (int i = 1; i < segment.values(out).shape_size(); ++i) columns *= segment.values(out).shape(i);
      return ByFlops(step, Extent(segment, out, 0), columns);
    }
    default:
      return {};
  }
}

}  // namespace

StepShapes ShapesOf(const Segment& segment, const Step& step) {
  StepShapes shapes = ProductOf(segment, step);
  shapes.segment = &segment;
  return shapes;
}

}  // namespace weft::sim
