#include "planner/presets/chimera_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "proto/util/status.h"
#include "proto/util/units.h"
#include "schedules/pipeline/timing.h"

namespace weft::planner {
namespace {

absl::StatusOr<ScheduleTiming> TimeWith(const PipelineSchedule& schedule, int microbatches, int64_t forward,
                                        int64_t backward) {
  return TimeSchedule(schedule, microbatches,
                      std::vector<StageCosts>(schedule.stages, {.forward = forward, .backward = backward}),
                      /*p2p=*/0);
}

// Returns the longest time, in seconds, by which a gradient sum of the worker exceeds its free regions.
double Unoverlapped(const std::vector<Slot>& slots, const std::vector<int64_t>& start, const std::vector<int64_t>& end,
                    int64_t makespan, const std::vector<double>& sums) {
  double longest = 0;
  // Time that the worker is idle after slot i. The loop goes from the last slot back.
  int64_t idle = makespan - end.back();
  std::set<int32_t> seen;
  for (size_t i = slots.size(); i-- > 0;) {
    if (i + 1 < slots.size()) idle += start[i + 1] - end[i];
    if (slots[i].kind != SlotKind::kBackward || !seen.insert(slots[i].stage).second) continue;
    longest = std::max(longest, sums[slots[i].stage] - ToSeconds({idle}));
  }
  return longest;
}

}  // namespace

double RabenseifnerSeconds(double bytes, int64_t replicas, const AlphaBeta& link) {
  if (replicas <= 1) return 0;
  const auto r = static_cast<double>(replicas);
  return 2 * std::log2(r) * link.alpha + 2 * (r - 1) * link.beta * bytes / r;
}

absl::StatusOr<ChimeraEstimate> EstimateChimera(const PipelineSchedule& schedule, int microbatches,
                                                const ChimeraTimes& times) {
  const int64_t forward = std::max<int64_t>(1, FromSeconds(times.forward + times.p2p).ps);
  const int64_t backward = std::max<int64_t>(1, FromSeconds(times.backward + times.p2p).ps);
  WEFT_ASSIGN_OR_RETURN(const ScheduleTiming timing, TimeWith(schedule, microbatches, forward, backward));
  // The makespan is C_f F + C_b B, so a backward that takes 1 ps more adds C_b ps.
  WEFT_ASSIGN_OR_RETURN(const ScheduleTiming longer, TimeWith(schedule, microbatches, forward, backward + 1));
  ChimeraEstimate estimate;
  estimate.backwards = longer.makespan - timing.makespan;
  estimate.forwards = (timing.makespan - estimate.backwards * backward) / forward;
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    if (schedule.order[rank].empty()) continue;
    estimate.unoverlapped =
        std::max(estimate.unoverlapped,
                 Unoverlapped(schedule.order[rank], timing.start[rank], timing.end[rank], timing.makespan, times.sums));
  }
  estimate.seconds = ToSeconds({timing.makespan}) + estimate.unoverlapped;
  return estimate;
}

}  // namespace weft::planner
