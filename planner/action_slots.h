// Converts a program's actions back to the slots of a schedule.
#ifndef WEFT_PLANNER_ACTION_SLOTS_H_
#define WEFT_PLANNER_ACTION_SLOTS_H_

#include <vector>

#include "proto/program.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

// Returns the slots that the action computes: one; two for an overlapped pair, where the first slot has `paired` set;
// or none if the action belongs to no microbatch.
std::vector<Slot> SlotsOf(const Action& action);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_ACTION_SLOTS_H_
