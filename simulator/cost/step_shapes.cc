#include "simulator/cost/step_shapes.h"

#include <algorithm>

#include "kernels/extents.h"

namespace weft::sim {
namespace {

// For convolutions: an output [rows x columns] whose depth follows from the flops.
StepShapes ByFlops(const Step& step, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1) return {};
  const double depth =
      static_cast<double>(step.work().flops()) / 2 / static_cast<double>(rows) / static_cast<double>(columns);
  return {rows, columns, std::max<int64_t>(1, static_cast<int64_t>(depth)), 1};
}

StepShapes ProductOf(const Segment& segment, const Step& step) {
  if (step.work().flops() <= 0 || step.outputs_size() == 0) return {};
  using kernels::Symbol;
  const kernels::KernelRow* row = kernels::FindRow(step.kernel());
  switch (row == nullptr ? kernels::WorkKind::kMemory : row->work) {
    case kernels::WorkKind::kMemory:
      return {};
    case kernels::WorkKind::kProduct: {
      const kernels::Extents of = kernels::ExtentsOf(segment, step);
      return {of[Symbol::m], of[Symbol::n], of[Symbol::k], 1};
    }
    case kernels::WorkKind::kAttention: {
      const kernels::Extents of = kernels::ExtentsOf(segment, step);
      const int64_t sequence = of[Symbol::sequence];
      if (sequence < 1) return {};
      return {sequence, sequence, of[Symbol::h], of[Symbol::rows] / sequence * of[Symbol::heads]};
    }
    case kernels::WorkKind::kConvolution: {
      const Value& out = segment.values(step.outputs(0));
      if (out.shape().empty()) return {};
      int64_t columns = 1;
      for (int i = 1; i < out.shape_size(); ++i) columns *= out.shape(i);
      return ByFlops(step, out.shape(0), columns);
    }
  }
  return {};
}

}  // namespace

StepShapes ShapesOf(const Segment& segment, const Step& step) {
  StepShapes shapes = ProductOf(segment, step);
  shapes.segment = &segment;
  return shapes;
}

}  // namespace weft::sim
