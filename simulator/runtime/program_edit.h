// Moves collectives between the actions of a template and the segments that its actions run. Internal to this folder.
#ifndef WEFT_SIMULATOR_RUNTIME_PROGRAM_EDIT_H_
#define WEFT_SIMULATOR_RUNTIME_PROGRAM_EDIT_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// A step that joins a segment.
struct JoiningStep {
  Step step;
  // The new step stands behind this step of the original segment; -1 = before all steps. The `deps` of the new step are
  // indices into the original segment.
  int behind = -1;
  // Joining steps that this step also waits for, by index in the list given.
  std::vector<int> after = {};
  // Steps of the original segment that also wait for this step.
  std::vector<int> awaited_by = {};
};

// Adds the steps to the segment, in order of `behind` and then of the list.
void Join(const std::vector<JoiningStep>& joining, Segment* segment);

// Returns a value of `segment` that covers the whole buffer as `action` binds it. Adds an operand if the action does
// not bind the buffer yet.
int32_t ValueOf(const Template& t, int32_t buffer, Access access, Action* action, Segment* segment);

// Returns the collective action as a step of the segment that `action` runs.
Step StepOf(const Template& t, const Action& collective, Action* action, Segment* segment);

// Adds a dependency, or merges it with the dependency of the same id and distance.
void AddDependency(int32_t id, int32_t distance, bool detached, Action* action);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_PROGRAM_EDIT_H_
