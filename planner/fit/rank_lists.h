// Writes the action lists of all ranks of a pipeline from the parts of its stages' forms (stage_parts.h). The lists
// serve only to find the memory: they have no waits, offsets and transfers. Writing them takes a small part of the time
// of compiling the pipeline.
//
//   forms 1 2     schedule 1f1b, 2 ranks     rank 0: F0 F1 B0 B1 …, each action with the buffers of form 1
#ifndef WEFT_PLANNER_FIT_RANK_LISTS_H_
#define WEFT_PLANNER_FIT_RANK_LISTS_H_

#include <vector>

#include "absl/types/span.h"
#include "planner/fit/stage_parts.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

struct ListsRequest {
  // Borrowed, together with the program that the parts refer to.
  const std::vector<StageParts>& parts;
  const std::vector<int>& form_of_stage;
  const PipelineSchedule& schedule;
  // Resolved.
  const Plan& plan;
  // Microbatches of the schedule in an iteration.
  int microbatches = 1;
  // By pipe rank: true to write its list; the other lists stay empty. An empty vector = write all lists.
  std::vector<bool> wanted = {};
};

// Replaces the templates of `program` (which has the segments of the forms) by one per pipe rank, in order. Buffers
// have their class, bytes, role and place; actions have operands, destinations and releases:
//   - a buffer is released by the last action that computes with it;
//   - a buffer that is sent lives until its stage begins the plan.send_buffers-th next action of the same kind;
//   - a receive runs plan.receive_buffers microbatches ahead of its reader (compiler/rank/place_receives.cc).
// The arenas are as high as the fullest moment.
void WriteLists(const ListsRequest& request, Program* program);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_RANK_LISTS_H_
