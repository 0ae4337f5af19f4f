// Moves the gradient of a bias to a place after the products that read the same rows.
//
// The compiler puts the bias gradient in front of these products, because weft's own executor computes it together with
// the rows (proto/util/step_runs.h). Other frameworks compute it last. PyTorch's formula of a linear layer has the
// gradients of the input, the weight and the bias in this order. Megatron-LM starts the collective of the input's
// gradient after computing that gradient, so that the gradients of the weight and the bias run beside the collective
// (megatron/core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication.backward).
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "proto/edit/program_edit.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

template <typename Values>
bool Names(const Segment& segment, const Values& values, const ValueRange& range) {
  return std::any_of(values.begin(), values.end(), [&](int32_t value) { return RangeOf(segment, value) == range; });
}

bool IsBiasSum(const Step& step) {
  return step.kernel() == BIAS_GRADIENT && step.stream() == COMPUTE && step.inputs_size() > 0;
}

bool WaitsFor(const Step& step, int index) {
  return std::find(step.deps().begin(), step.deps().end(), index) != step.deps().end();
}

// Returns the step after which the bias gradient `sum` must run, or `sum` itself if it does not move.
int PlaceOf(const Segment& segment, int sum) {
  const Step& own = segment.steps(sum);
  const ValueRange rows = RangeOf(segment, own.inputs(0));
  int place = sum;
  for (int i = sum + 1; i < segment.steps_size(); ++i) {
    const Step& step = segment.steps(i);
    if (WaitsFor(step, sum)) break;
    // Another layer reads the same rows; the products after this step belong to that layer.
    if (IsBiasSum(step) && RangeOf(segment, step.inputs(0)) == rows) break;
    const bool touches = std::any_of(own.outputs().begin(), own.outputs().end(), [&](int32_t made) {
      const ValueRange range = RangeOf(segment, made);
      return Names(segment, step.inputs(), range) || Names(segment, step.outputs(), range);
    });
    if (touches) break;
    if (step.kernel() == MATMUL && Names(segment, step.inputs(), rows)) place = i;
    if (Names(segment, step.outputs(), rows)) break;
  }
  return place;
}

}  // namespace

bool HasBiasSums(const Program& program) {
  return std::any_of(program.segments().begin(), program.segments().end(), [](const Segment& segment) {
    return std::any_of(segment.steps().begin(), segment.steps().end(), IsBiasSum);
  });
}

void SumBiasesLast(Program* program) {
  for (Segment& segment : *program->mutable_segments()) {
    std::vector<int> behind(segment.steps_size());
    std::iota(behind.begin(), behind.end(), 0);
    bool moves = false;
    for (int i = 0; i < segment.steps_size(); ++i) {
      if (!IsBiasSum(segment.steps(i))) continue;
      behind[i] = PlaceOf(segment, i);
      moves |= behind[i] != i;
    }
    if (!moves) continue;
    std::vector<int> order(segment.steps_size());
    std::iota(order.begin(), order.end(), 0);
    // A step that moves follows its target step, which stays where it is.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return std::pair(behind[a], behind[a] != a) < std::pair(behind[b], behind[b] != b);
    });
    StepEditor editor(&segment);
    for (const int step : order) editor.Append(segment.steps(step), step);
    editor.Finish();
  }
}

}  // namespace weft::sim
