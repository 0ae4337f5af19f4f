// Runtime.gate_sums_apart: the framework makes two sums over ranks where weft makes one.
#include <algorithm>
#include <utility>
#include <vector>

#include "proto/edit/program_edit.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

// Returns the last step before `before` that makes the value; -1 = no such step.
int MakerOf(const Segment& segment, int32_t value, int before) {
  for (int i = before - 1; i >= 0; --i) {
    const auto& outputs = segment.steps(i).outputs();
    if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return i;
  }
  return -1;
}

// Returns the SWIGLU_BACKWARD step that made the first input of `product`; -1 if another step made it or if `product`
// is not a product.
int GateBehind(const Segment& segment, int product) {
  if (product < 0 || segment.steps(product).kernel() != MATMUL || segment.steps(product).inputs_size() == 0) return -1;
  const int maker = MakerOf(segment, segment.steps(product).inputs(0), product);
  return maker >= 0 && segment.steps(maker).kernel() == SWIGLU_BACKWARD ? maker : -1;
}

bool SumsAGate(const Segment& segment, int index) {
  const Step& sum = segment.steps(index);
  if (sum.stream() != COLLECTIVE || sum.kernel() != GROUP_ALL_REDUCE || sum.collective().purpose() != TENSOR ||
      sum.inputs_size() != 1) {
    return false;
  }
  const int add = MakerOf(segment, sum.inputs(0), index);
  if (add < 0 || segment.steps(add).kernel() != ADD || segment.steps(add).inputs_size() != 2) return false;
  const int first = GateBehind(segment, MakerOf(segment, segment.steps(add).inputs(0), add));
  const int second = GateBehind(segment, MakerOf(segment, segment.steps(add).inputs(1), add));
  return first >= 0 && first == second;
}

void Repeat(const std::vector<bool>& twice, Segment* segment) {
  StepEditor editor(segment);
  for (int i = 0; i < segment->steps_size(); ++i) {
    const int first = editor.Append(segment->steps(i), i);
    if (!twice[i]) continue;
    Step again = segment->steps(i);
    again.clear_deps();
    again.add_deps(first);
    editor.Append(std::move(again), i);
  }
  editor.Finish();
}

}  // namespace

void TakeGateSumsApart(Program* program) {
  for (Segment& segment : *program->mutable_segments()) {
    std::vector<bool> twice;
    for (int i = 0; i < segment.steps_size(); ++i) twice.push_back(SumsAGate(segment, i));
    if (std::find(twice.begin(), twice.end(), true) != twice.end()) Repeat(twice, &segment);
  }
}

}  // namespace weft::sim
