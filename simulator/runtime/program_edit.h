// Moving collectives between the actions of a template and the segments that its actions run. Internal to this folder.
#ifndef WEFT_SIMULATOR_RUNTIME_PROGRAM_EDIT_H_
#define WEFT_SIMULATOR_RUNTIME_PROGRAM_EDIT_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// A step that joins a segment.
struct JoiningStep {
  Step step;
  // It stands behind this step of the segment, -1 = before all. Its `deps` are indices of the segment as it was.
  int behind = -1;
  // Of the steps that join with it, by index in the list given: those that it waits for besides.
  std::vector<int> after = {};
  // Steps of the segment, as it was, that wait for it besides.
  std::vector<int> awaited_by = {};
};

// Adds the steps, in order of `behind` and then of the list.
void Join(const std::vector<JoiningStep>& joining, Segment* segment);

// The value of `segment` that is all of the buffer as `action` binds it; an operand is added where it has none.
int32_t ValueOf(const Template& t, int32_t buffer, Access access, Action* action, Segment* segment);

// The collective action as a step of the segment that `action` runs.
Step StepOf(const Template& t, const Action& collective, Action* action, Segment* segment);

// Adds a dependency unless there is one that says as much.
void AddDependency(int32_t id, int32_t distance, bool detached, Action* action);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_PROGRAM_EDIT_H_
