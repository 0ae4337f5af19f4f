// The problem of schedule synthesis, and the check of its solutions. Knows no algorithm.
#ifndef WEFT_SCHEDULES_SYNTHESIS_PROBLEM_H_
#define WEFT_SCHEDULES_SYNTHESIS_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {

// PipelineSchedule::placement: [lane][stage] = rank.
using Placement = std::vector<std::vector<int>>;

// Find an order of slots with the smallest makespan. All times are in one unit, all activations in another.
struct SynthesisProblem {
  int ranks = 1;         // P >= 1
  int microbatches = 1;  // N >= 1
  // Costs of each stage. The length is the number of stages.
  std::vector<StageCosts> costs = {};
  // Time from the end of a slot until another rank can use its result.
  int64_t p2p = 0;
  // True if backwards may run in two halves. If false, backward_input and backward_weight have no meaning.
  bool split = true;
  // The activations that one microbatch leaves in each stage, e.g. in bytes, and the most that a rank may hold. They
  // are counted as in RankTiming::peak_activations. Without a cap, `activations` may be empty.
  std::vector<int64_t> activations = {};
  std::optional<int64_t> memory_cap = {};
  // The placements to choose from; one or more. A placement has one lane, or two: then every stage is on two ranks.
  std::vector<Placement> placements = {};

  int stages() const { return static_cast<int>(costs.size()); }
};

// Returns the placements of `stages` stages on `ranks` ranks that named schedules use: looped and snake (with one stage
// per rank both are linear). If `replicas` and the number of ranks is even, also returns two lanes in opposite
// directions. The result is empty if `stages` is no multiple of `ranks`.
std::vector<Placement> KnownPlacements(int ranks, int stages, bool replicas);

// Returns InvalidArgument, with the field that is out of range, its value and what is allowed. A problem that passes
// has a solution.
absl::Status CheckProblem(const SynthesisProblem& problem);

// Returns the most activations that each rank holds at once, weighted by stage. The schedule must pass CheckSchedule,
// flush and have no wide forwards.
std::vector<int64_t> PeakMemory(const PipelineSchedule& schedule, const std::vector<int64_t>& activations);

// Times a schedule as TimeSchedule does. Returns InvalidArgument, with the reason, if the schedule is no solution. The
// reasons: CheckSchedule or CheckAccumulationOrder refuses it; it has another size or placement than the problem; it
// splits a backward that must be whole; it pairs or doubles slots; it is message-driven; it does not flush; or a rank
// holds too much.
absl::StatusOr<ScheduleTiming> CheckSolution(const SynthesisProblem& problem, const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_PROBLEM_H_
