// Edits the lists of a Program: the actions of a template and the steps of a segment.
#ifndef WEFT_PROTO_EDIT_PROGRAM_EDIT_H_
#define WEFT_PROTO_EDIT_PROGRAM_EDIT_H_

#include <map>
#include <vector>

#include "proto/program.pb.h"
#include "proto/util/action_kind.h"

namespace weft {

// Returns an id that is higher than the ids of all actions of the template.
int NextActionId(const Template& t);

// Adds a dependency. If the action already has a dependency on the same action and distance, merges the two.
void AddDependency(int on, int distance, bool detached, Action* action);

// Replaces dependencies on an action by dependencies on its replacement. `becomes` maps the id of an action to the id
// of its replacement. If the replacement itself waits for the action in the same repetition, that dependency stays.
void RedirectDependencies(const std::map<int, int>& becomes, Template* t);

// Sets the id of each action to its position in the template. Sorts dependencies by distance, then by action.
void NumberActions(Template* t);

// Makes a new list of steps for a segment. Until Finish() the segment keeps the old list.
class StepEditor {
 public:
  explicit StepEditor(Segment* segment) : segment_(*segment), new_index_(segment->steps_size(), -1) {}

  // Appends a step to the new list and returns an index for it, which later `deps` may use. The step's `deps` are
  // indices into the old list, or results of Append. Steps that wait for the old step `stands_for` will wait for this
  // step (-1 = none). If several steps stand for one old step, steps wait for the last of them.
  int Append(Step step, int stands_for = -1);

  // Replaces the old list by the new one. If a step waits for an old step, some new step must stand for the old step.
  void Finish();

 private:
  Segment& segment_;
  google::protobuf::RepeatedPtrField<Step> steps_;
  // The index in the new list of the step that stands for each old step; -1 = none so far.
  std::vector<int> new_index_;
};

// A step to insert into a segment.
struct JoiningStep {
  Step step;
  // The new step is inserted after this step of the original segment; -1 = before all steps. The `deps` of the new step
  // are indices into the original segment.
  int after_step = -1;
  // Other joining steps that this step also waits for: indices into the list given to Join.
  std::vector<int> after = {};
  // Steps of the original segment that also wait for this step.
  std::vector<int> awaited_by = {};
};

// Inserts the steps into the segment. Steps with the same `after_step` keep the order of the list.
void Join(const std::vector<JoiningStep>& joining, Segment* segment);

}  // namespace weft

#endif  // WEFT_PROTO_EDIT_PROGRAM_EDIT_H_
