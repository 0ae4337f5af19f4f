#include "cli/schedule/schedule_synthesis.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/schedule/schedule_view.h"
#include "proto/io/json.h"
#include "proto/util/status.h"
#include "schedules/pipeline/activations.h"
#include "schedules/synthesis/problem.h"
#include "schedules/synthesis/synthesize.h"

namespace weft {
namespace {

constexpr int kDefaultRanks = 4, kDefaultMicrobatches = 8;
// Named schedules in the text; the JSON report has all.
constexpr int kShownNamed = 3;

// Activations and cap in one integer unit. Returns what one microbatch in all stages of a rank counts.
int64_t SetMemory(const SynthesisRequest& request, const ScaledCosts& costs, SynthesisProblem* problem) {
  if (!request.activations.empty()) {
    problem->activations = request.activations;
    if (request.activation_cap > 0) problem->memory_cap = request.activation_cap;
    return request.scale;
  }
  problem->activations.assign(problem->stages(), costs.activations * request.scale);
  if (request.activation_cap > 0) problem->memory_cap = request.activation_cap * costs.unit;
  return request.scale * costs.unit;
}

}  // namespace

absl::StatusOr<SynthesizedSchedule> SynthesizeSchedule(const SynthesisRequest& request) {
  const int named_stages = std::max(request.times.stages(),
                                    request.activations.size() > 1 ? static_cast<int>(request.activations.size()) : 0);
  SynthesisProblem problem;
  problem.ranks = request.params.ranks != 0 ? request.params.ranks : named_stages != 0 ? named_stages : kDefaultRanks;
  problem.microbatches = request.params.microbatches != 0 ? request.params.microbatches : kDefaultMicrobatches;
  const int per_rank = std::max(request.params.virtual_stages, 1);
  const int stages = named_stages != 0 && request.params.virtual_stages == 0 ? named_stages : problem.ranks * per_rank;
  if (stages % problem.ranks != 0) {
    const int nearest = std::max(1, (stages + problem.ranks / 2) / problem.ranks) * problem.ranks;
    return absl::InvalidArgumentError(absl::StrCat(
        stages, " stages on ", problem.ranks, " ranks; allowed: a multiple of the ranks, nearest valid: ", nearest));
  }
  if (!request.activations.empty() && static_cast<int>(request.activations.size()) != stages) {
    return absl::InvalidArgumentError(absl::StrCat("--activations has ", request.activations.size(),
                                                   " values, but there are ", stages, " stages; allowed: ", stages));
  }
  WEFT_ASSIGN_OR_RETURN(ScaledCosts costs, ScaleCosts(request.times, request.params.costs.p2p, problem.ranks, stages));
  problem.costs = costs.stages;
  problem.p2p = costs.p2p;
  problem.split = !request.whole;
  problem.placements = KnownPlacements(problem.ranks, stages, request.replicas);
  const int64_t memory_unit = SetMemory(request, costs, &problem);
  if (problem.memory_cap) {
    // In the user's unit, unlike CheckProblem's.
    for (const Placement& placement : problem.placements) {
      std::vector<int64_t> one(problem.ranks);
      for (int stage = 0; stage < stages; ++stage) one[placement[0][stage]] += problem.activations[stage];
      const int64_t most = *std::max_element(one.begin(), one.end());
      if (most <= *problem.memory_cap) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "--activation-cap=", JsonNumber(*problem.memory_cap / static_cast<double>(memory_unit)),
          " is too small for one microbatch; nearest valid: ", JsonNumber(most / static_cast<double>(memory_unit))));
    }
  }
  SynthesisOptions options;
  options.seed = request.seed;
  options.lists *= request.effort;
  options.starts += 2 * (request.effort - 1);
  options.iterations *= request.effort;
  options.exact_work *= request.effort;
  WEFT_ASSIGN_OR_RETURN(Synthesis found, Synthesize(problem, options));

  SynthesizedSchedule result;
  LoadedSchedule& loaded = result.loaded;
  loaded.own_name = loaded.timed.name = "synthesized";
  loaded.timed.microbatches = problem.microbatches;
  loaded.timed.scale = request.scale;
  loaded.timed.schedule = std::move(found.schedule);
  loaded.timed.timing = std::move(found.timing);
  loaded.timed.timing.unit = costs.unit;
  loaded.report = MakeScheduleReport(loaded.timed);
  const std::vector<int64_t> peaks = PeakMemory(loaded.timed.schedule, problem.activations);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    loaded.report.mutable_per_rank(rank)->set_peak_activations(peaks[rank] / static_cast<double>(memory_unit));
  }
  const double unit = static_cast<double>(costs.unit * request.scale);
  result.report.set_schema_version(1);
  result.report.set_lower_bound(static_cast<double>(found.bound) / unit);
  result.report.set_gap(found.gap());
  result.report.set_method(found.method);
  for (const NamedSolution& named : found.named) {
    NamedMakespan* const row = result.report.add_named();
    row->set_schedule(named.name);
    row->set_makespan(static_cast<double>(named.makespan) / unit);
  }
  return result;
}

std::string SynthesisText(const SynthesisReport& report) {
  std::string text = absl::StrCat(
      "lower bound ", JsonNumber(report.lower_bound()), ", ",
      report.gap() == 0 ? "which is reached: no order is faster" : absl::StrFormat("gap %.2f %%", 100 * report.gap()),
      "; found by ", report.method(), "\n");
  if (report.named_size() == 0) return absl::StrCat(text, "no named schedule is valid here\n");
  absl::StrAppend(&text, "the fastest named schedules:");
  for (int i = 0; i < std::min(kShownNamed, report.named_size()); ++i) {
    absl::StrAppend(&text, i > 0 ? "," : "", " ", report.named(i).schedule(), " ",
                    JsonNumber(report.named(i).makespan()));
  }
  return absl::StrCat(text, "\n");
}

}  // namespace weft
