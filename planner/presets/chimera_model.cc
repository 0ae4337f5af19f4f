#include "planner/presets/chimera_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

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

// Seconds of the sums of a worker that its free regions do not hide.
double Unoverlapped(const std::vector<Slot>& slots, const std::vector<int64_t>& start, const std::vector<int64_t>& end,
                    int64_t makespan, const std::vector<double>& sums) {
  // By stage, the index of its last backward.
  std::map<int32_t, size_t> last;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].kind == SlotKind::kBackward) last[slots[i].stage] = i;
  }
  std::vector<std::pair<size_t, int32_t>> order;
  for (const auto& [stage, index] : last) order.emplace_back(index, stage);
  std::sort(order.begin(), order.end());
  double waiting = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    waiting += sums[order[i].second];
    // What is idle until the next stage's sum may begin, or until all workers have ended.
    const size_t until = i + 1 < order.size() ? order[i + 1].first : slots.size() - 1;
    int64_t idle = i + 1 < order.size() ? 0 : makespan - end[until];
    for (size_t slot = order[i].first; slot < until; ++slot) idle += start[slot + 1] - end[slot];
    waiting = std::max(0.0, waiting - ToSeconds({idle}));
  }
  return waiting;
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
