// A program as run by frameworks that gather and scatter every tensor separately (ZeRO 3 of DeepSpeed).
//
// A step of weft gathers all weights of a layer at once. Here a step that gathers k tensors becomes k steps of one
// tensor each, one after the other on the communicator. They move the same bytes with k times the latencies. Steps that
// waited for the original step wait for the last of the new steps. The result is for costing only. Source: Rajbhandari
// et al., SC 2021, "ZeRO-Infinity", sec. 7.1 (parameters are fetched one by one).
#include <algorithm>
#include <utility>

#include "proto/edit/program_edit.h"
#include "simulator/runtime/rewrites.h"

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
