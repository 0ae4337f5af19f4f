// A program as run by frameworks that prefetch weights only within a recomputed block.
//
// A backward of weft gathers the weights of the next recomputation during the step before it, whatever that step is.
// AxoNN starts its queue of gathers when the recomputation of a block begins, so the first gather of each block has
// nothing to hide under. Here a gather waits for the last backward kernel between the gather and the first step that
// reads it. The result is for costing only. Source: axonn/intra_layer/__init__.py of AxoNN 0.2,
// overlap_all_gathers_for_checkpointed_forward.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "proto/edit/program_edit.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

bool IsGather(const Step& step) {
  return step.stream() == COLLECTIVE && step.kernel() == GROUP_ALL_GATHER &&
         step.collective().purpose() == GATHER_WEIGHTS;
}

// Products of a backward are plain MATMULs, so only other kernels show that a step belongs to a backward.
bool IsBackward(const Step& step) {
  return step.stream() == COMPUTE &&
         (step.kernel() == BIAS_GRADIENT || Kernel_Name(step.kernel()).find("BACKWARD") != std::string::npos);
}

// Returns the last backward kernel between the gather and its first reader; -1 = none. Readers are found by the place
// of the value, because a tensor that is gathered with padding is then read as another value without padding (rule P8).
int BackwardBefore(const Segment& segment, int gather) {
  const auto place = [&](int32_t v) { return std::pair(segment.values(v).operand(), segment.values(v).offset()); };
  const auto gathers_to = [&](int32_t input) {
    const auto& outputs = segment.steps(gather).outputs();
    return std::any_of(outputs.begin(), outputs.end(), [&](int32_t output) {
      const bool known = std::max(input, output) < segment.values_size();
      return input == output || (known && place(input) == place(output));
    });
  };
  int last = -1;
  for (int i = gather + 1; i < segment.steps_size(); ++i) {
    const Step& step = segment.steps(i);
    for (const int32_t input : step.inputs()) {
      if (gathers_to(input)) return last;
    }
    if (IsBackward(step)) last = i;
  }
  return -1;
}

void Delay(Segment* segment) {
  const int count = segment->steps_size();
  std::vector<std::vector<int>> behind(count);
  std::vector<int> waits(count, -1);
  for (int i = 0; i < count; ++i) {
    if (!IsGather(segment->steps(i))) continue;
    waits[i] = BackwardBefore(*segment, i);
    if (waits[i] >= 0) behind[waits[i]].push_back(i);
  }
  StepEditor editor(segment);
  const auto append = [&](int i) {
    Step step = segment->steps(i);
    if (waits[i] >= 0) step.add_deps(waits[i]);
    editor.Append(std::move(step), i);
  };
  for (int i = 0; i < count; ++i) {
    if (waits[i] < 0) append(i);
    for (const int gather : behind[i]) append(gather);
  }
  editor.Finish();
}

}  // namespace

void DelayGathers(Program* program) {
  for (Segment& segment : *program->mutable_segments()) {
    if (std::any_of(segment.steps().begin(), segment.steps().end(), IsGather)) Delay(&segment);
  }
}

}  // namespace weft::sim
