// Computes the figures by which tests compare plans: the time and the memory of their programs.
#ifndef WEFT_PLANNER_PLAN_FIGURES_TESTING_H_
#define WEFT_PLANNER_PLAN_FIGURES_TESTING_H_

#include <cstdint>

#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft::planner {

// Simulated seconds of one iteration. The test fails if the simulation does.
double SecondsOf(const Program& program, const Cluster& cluster);

// Bytes of the highest device arena of any role, in training and in evaluation.
int64_t HighestArena(const Program& program);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_PLAN_FIGURES_TESTING_H_
