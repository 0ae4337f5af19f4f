// Schedule synthesis: the best order of slots that the methods of this folder find, and how far it may be from the best
// there is.
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
  // How many of the best orders local search starts from, and its iterations for each.
  int starts = 6;
  int64_t iterations = 2000;
  // Exact search runs on problems of at most this many slots, with this much work for each question (exact.h).
  int64_t exact_slots = 160;
  uint32_t exact_work = 20'000'000;
};

struct Synthesis {
  PipelineSchedule schedule;
  ScheduleTiming timing;
  // No schedule of the problem has a smaller makespan.
  int64_t bound = 0;
  // What found the schedule: a named schedule, "list scheduling", "tabu search" or "exact search".
  std::string method;
  // The named schedules that solve the problem, the fastest first.
  std::vector<NamedSolution> named;

  bool optimal() const { return timing.makespan == bound; }
  // The most by which the makespan may exceed the best possible one, relative to the bound.
  double gap() const {
    return bound > 0 ? static_cast<double>(timing.makespan - bound) / static_cast<double>(bound) : 0;
  }
};

// Finds a schedule that is at least as fast as every named one. InvalidArgument if CheckProblem refuses the problem.
//
// Method: starts from the named schedules and from list scheduling with many policies, and improves the best of them by
// tabu search. Every result passes CheckSolution.
// Cost:   O(options.lists * slots * stages + options.starts * options.iterations * slots).
absl::StatusOr<Synthesis> Synthesize(const SynthesisProblem& problem, const SynthesisOptions& options = {});

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_SYNTHESIZE_H_
