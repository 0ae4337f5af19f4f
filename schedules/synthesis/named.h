// The named schedules that solve a problem.
#ifndef WEFT_SCHEDULES_SYNTHESIS_NAMED_H_
#define WEFT_SCHEDULES_SYNTHESIS_NAMED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/pipeline/schedule.h"
#include "schedules/synthesis/problem.h"

namespace weft {

struct NamedSolution {
  // The schedule's name, and its parameters if it has any, e.g. "hanayo --waves=2".
  std::string name;
  PipelineSchedule schedule;
  int64_t makespan = 0;
};

// Tries all registered schedules, with all values of their own parameters. Returns the fastest of each name that solves
// the problem, sorted by makespan. A message-driven schedule is frozen in the order that results from the problem's
// times. Pairs run one slot after the other, because a problem says nothing about overlap.
std::vector<NamedSolution> NamedSolutions(const SynthesisProblem& problem);

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_NAMED_H_
