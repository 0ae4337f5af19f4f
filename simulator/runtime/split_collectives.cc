#include "simulator/runtime/split_collectives.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft::sim {
namespace {

bool Splits(const Step& step) {
  if (step.stream() != COLLECTIVE || step.inputs_size() < 2 || step.inputs_size() != step.outputs_size()) return false;
  const Purpose purpose = step.collective().purpose();
  return purpose == GATHER_WEIGHTS || purpose == SCATTER_GRADIENTS;
}

void Split(Segment* segment) {
  Segment made;
  // By original step: the last of the steps that replace it.
  std::vector<int> last;
  for (const Step& step : segment->steps()) {
    const int parts = Splits(step) ? step.inputs_size() : 1;
    for (int i = 0; i < parts; ++i) {
      Step& own = *made.add_steps();
      own = step;
      for (int& dep : *own.mutable_deps()) dep = last[dep];
      if (parts == 1) break;
      own.clear_inputs();
      own.clear_outputs();
      own.add_inputs(step.inputs(i));
      own.add_outputs(step.outputs(i));
    }
    last.push_back(made.steps_size() - 1);
  }
  segment->mutable_steps()->Swap(made.mutable_steps());
}

}  // namespace

void SplitCollectives(Program* program) {
  for (Segment& segment : *program->mutable_segments()) {
    if (std::any_of(segment.steps().begin(), segment.steps().end(), Splits)) Split(&segment);
  }
}

}  // namespace weft::sim
