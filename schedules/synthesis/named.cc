#include "schedules/synthesis/named.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

// Returns every combination of the schedule's parameters that can fit the problem.
std::vector<std::pair<std::string, ScheduleParams>> Variants(const ScheduleEntry& entry,
                                                             const SynthesisProblem& problem) {
  ScheduleParams params = {.ranks = problem.ranks, .microbatches = problem.microbatches};
  // Schedules that order slots by time know one time for all stages, so they get the average. All times are multiplied
  // by the number of ranks, so that the average is an integer.
  params.costs = {.forward = 0, .backward = 0, .weight = 0, .p2p = problem.p2p * problem.ranks};
  for (const StageCosts& costs : problem.costs) {
    params.costs.forward += costs.forward;
    params.costs.backward += costs.backward;
    if (problem.split) params.costs.weight += costs.backward_weight;
  }
  params.costs.forward = std::max<int64_t>(params.costs.forward, 1);
  params.costs.backward = std::max<int64_t>(params.costs.backward, 1);
  params.costs.weight = std::min(params.costs.weight, params.costs.backward);
  const int per_rank = problem.stages() / problem.ranks;
  if ((entry.takes & kTakesVirtualStages) != 0) params.virtual_stages = per_rank;
  std::vector<std::pair<std::string, ScheduleParams>> variants = {{"", params}};
  const auto vary = [&](uint32_t bit, const char* flag, int low, int high, int ScheduleParams::* field) {
    if ((entry.takes & bit) == 0) return;
    const size_t plain = variants.size();
    for (int value = low; value <= high; ++value) {
      for (size_t i = 0; i < plain; ++i) {
        auto variant = variants[i];
        variant.second.*field = value;
        absl::StrAppend(&variant.first, " --", flag, "=", value);
        variants.push_back(std::move(variant));
      }
    }
  };
  vary(kTakesWaves, "waves", std::max(1, per_rank / 2), std::max(1, per_rank / 2), &ScheduleParams::waves);
  vary(kTakesLimit, "limit", 1, problem.microbatches, &ScheduleParams::limit);
  vary(kTakesGroup, "group", 1, problem.microbatches, &ScheduleParams::group);
  return variants;
}

}  // namespace

std::vector<NamedSolution> NamedSolutions(const SynthesisProblem& problem) {
  std::vector<NamedSolution> solutions;
  for (const ScheduleEntry& entry : Schedules()) {
    NamedSolution best;
    for (auto& [flags, params] : Variants(entry, problem)) {
      absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(entry, params);
      if (!schedule.ok() || schedule->stages != problem.stages()) continue;
      if (schedule->message_driven) {
        schedule = FreezeSchedule(*schedule, problem.microbatches, problem.costs, problem.p2p);
        if (!schedule.ok()) continue;
      }
      for (std::vector<Slot>& order : schedule->order) {
        for (Slot& slot : order) slot.paired = false;
      }
      const absl::StatusOr<ScheduleTiming> timing = CheckSolution(problem, *schedule);
      if (!timing.ok() || (!best.name.empty() && timing->makespan >= best.makespan)) continue;
      best = {absl::StrCat(entry.name, flags), *std::move(schedule), timing->makespan};
    }
    if (!best.name.empty()) solutions.push_back(std::move(best));
  }
  std::stable_sort(solutions.begin(), solutions.end(),
                   [](const NamedSolution& a, const NamedSolution& b) { return a.makespan < b.makespan; });
  return solutions;
}

}  // namespace weft
