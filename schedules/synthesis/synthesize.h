// Schedule synthesis: finds the best order of slots by all methods of this folder, and bounds how far it is from the
// best there is.
#ifndef WEFT_SCHEDULES_SYNTHESIS_SYNTHESIZE_H_
#define WEFT_SCHEDULES_SYNTHESIS_SYNTHESIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"
#include "schedules/synthesis/named.h"
#include "schedules/synthesis/problem.h"

namespace weft {

// All work is bounded by counts, never by time, so the answer is the same on every machine.
struct SynthesisOptions {
  uint64_t seed = 1;
  // Orders built by list scheduling, with policies drawn at random.
  int lists = 400;
  // Number of orders, the best ones, from which local search starts, and its iterations for each.
  int starts = 6;
  int64_t iterations = 2000;
  // Exact search runs on problems of at most this many slots, with this much work for each question (exact.h).
  int64_t exact_slots = 160;
  uint32_t exact_work = 20'000'000;
};

struct Synthesis {
  PipelineSchedule schedule;
  ScheduleTiming timing;
  // Lower bound: no schedule of the problem has a smaller makespan.
  int64_t bound = 0;
  // The origin of the schedule: the name of a named schedule, "list scheduling", "tabu search" or "exact search".
  std::string method;
  // The named schedules that solve the problem, fastest first.
  std::vector<NamedSolution> named;

  bool optimal() const { return timing.makespan == bound; }
  // The most by which the makespan may exceed the best possible one, relative to the bound.
  double gap() const {
    return bound > 0 ? static_cast<double>(timing.makespan - bound) / static_cast<double>(bound) : 0;
  }
};

// Finds a schedule that is at least as fast as every named one. Returns InvalidArgument if CheckProblem refuses the
// problem.
//
// Method: starts from the named schedules and from list scheduling with many policies, and improves the best of them by
// tabu search. If the problem is small, exact search then looks for anything faster. Every result passes CheckSolution.
// Cost:   O(options.lists * slots * stages + options.starts * options.iterations * slots).
absl::StatusOr<Synthesis> Synthesize(const SynthesisProblem& problem, const SynthesisOptions& options = {});

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_SYNTHESIZE_H_
