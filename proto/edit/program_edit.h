// Rewrites the lists of a Program: the actions of a template and the steps of a segment.
#ifndef WEFT_PROTO_EDIT_PROGRAM_EDIT_H_
#define WEFT_PROTO_EDIT_PROGRAM_EDIT_H_

#include <map>
#include <vector>

#include "proto/program.pb.h"
#include "proto/util/action_kind.h"

namespace weft {

// Returns an id above those of all actions of the template.
int NextActionId(const Template& t);

// Adds a dependency, or merges it with the dependency of the same action and distance.
void AddDependency(int on, int distance, bool detached, Action* action);

// Actions that wait for an action that `becomes` names wait for that other action instead. The other action may itself
// wait for the named one in the same repetition: that dependency stays.
void RedirectDependencies(const std::map<int, int>& becomes, Template* t);

// Makes the id of each action its position in the template. Sorts dependencies by distance, then by action.
void NumberActions(Template* t);

// Makes a new list of steps for a segment. Until Finish() the segment keeps the old list.
class StepEditor {
 public:
  explicit StepEditor(Segment* segment) : segment_(*segment), place_(segment->steps_size(), -1) {}

  // Appends a step to the new list. Its `deps` are indices into the old list, or what Append returned for new steps.
  // Steps that wait for the old step `stands_for` will wait for this step. Several steps may stand for one old step:
  // the last one counts.
  int Append(Step step, int stands_for = -1);

  // Replaces the old list. Every old step that a step waits for must have one that stands for it.
  void Finish();

 private:
  Segment& segment_;
  google::protobuf::RepeatedPtrField<Step> steps_;
  // By old index: the new index.
  std::vector<int> place_;
};

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

}  // namespace weft

#endif  // WEFT_PROTO_EDIT_PROGRAM_EDIT_H_
