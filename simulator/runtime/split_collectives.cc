#include "simulator/runtime/split_collectives.h"

#include <algorithm>
#include <utility>

#include "proto/edit/program_edit.h"

namespace weft::sim {
namespace {

bool Splits(const Step& step) {
  if (step.stream() != COLLECTIVE || step.inputs_size() < 2 || step.inputs_size() != step.outputs_size()) return false;
  const Purpose purpose = step.collective().purpose();
  return purpose == GATHER_WEIGHTS || purpose == SCATTER_GRADIENTS;
}

void Split(Segment* segment) {
  StepEditor editor(segment);
  for (int s = 0; s < segment->steps_size(); ++s) {
    const Step& step = segment->steps(s);
    if (!Splits(step)) {
      editor.Append(step, s);
      continue;
    }
    for (int i = 0; i < step.inputs_size(); ++i) {
      Step own = step;
      own.clear_inputs();
      own.clear_outputs();
      own.add_inputs(step.inputs(i));
      own.add_outputs(step.outputs(i));
      editor.Append(std::move(own), s);
    }
  }
  editor.Finish();
}

}  // namespace

void SplitCollectives(Program* program) {
  for (Segment& segment : *program->mutable_segments()) {
    if (std::any_of(segment.steps().begin(), segment.steps().end(), Splits)) Split(&segment);
  }
}

}  // namespace weft::sim
