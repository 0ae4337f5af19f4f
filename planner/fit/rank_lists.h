// Writes the lists of a whole pipeline's ranks from the parts of its stages' forms, for their memory alone: without
// waits, offsets and transfers. That takes a small part of the time of compiling the pipeline.
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
  // Its parts are borrowed, with the program that they are of.
  const std::vector<StageParts>& parts;
  const std::vector<int>& form_of_stage;
  const PipelineSchedule& schedule;
  // Resolved.
  const Plan& plan;
  // Microbatches of the schedule in an iteration.
  int microbatches = 1;
  // By pipe rank: whether to write its list; the others stay empty. Empty = all.
  std::vector<bool> wanted = {};
};

// Replaces the templates of `program` (which has the segments of the forms) by one per pipe rank, in order. Buffers
// have their class, bytes, role and place; actions have operands, destinations and releases:
//   - a buffer is released by the last action that computes with it;
//   - a buffer that is sent lives until the maker's next action but plan.send_buffers - 1;
//   - a receive runs plan.receive_buffers ahead of its reader (compiler/rank/place_receives.cc).
// The arenas are as high as the fullest moment.
void WriteLists(const ListsRequest& request, Program* program);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_RANK_LISTS_H_
