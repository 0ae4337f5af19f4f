#include "schedules/pipeline/timing.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "schedules/pipeline/activations.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/message_driven.h"
#include "schedules/pipeline/slot_times.h"

namespace weft {
namespace {

// Times one set of lists after the other, and splits each rank's idle time by cause.
class TimeRecorder {
 public:
  TimeRecorder(const PipelineSchedule& schedule, int microbatches, const UnitCosts& costs)
      : schedule_(schedule), timer_(schedule, microbatches, costs), first_(schedule.order.size(), -1) {
    timing_.unit = costs.unit;
    timing_.ranks.resize(schedule.order.size());
    for (const std::vector<Slot>& order : schedule.order) {
      timing_.start.emplace_back(order.size());
      timing_.end.emplace_back(order.size());
    }
  }

  void TimeAll(const std::vector<std::vector<Slot>>& order, int repetition) {
    TimeSome(order, repetition, [](int, int64_t i) { return i; });
  }

  // Times only the slots with this value of `ahead`.
  void TimePart(int ahead, int repetition) {
    std::vector<std::vector<Slot>> part(schedule_.order.size());
    std::vector<std::vector<int32_t>> index(schedule_.order.size());
    for (size_t rank = 0; rank < schedule_.order.size(); ++rank) {
      for (size_t i = 0; i < schedule_.order[rank].size(); ++i) {
        if (schedule_.order[rank][i].ahead != ahead) continue;
        part[rank].push_back(schedule_.order[rank][i]);
        index[rank].push_back(static_cast<int32_t>(i));
      }
    }
    TimeSome(part, repetition, [&](int rank, int64_t i) { return index[rank][i]; });
  }

  ScheduleTiming End(int microbatches, const UnitCosts& costs) {
    const int ranks = static_cast<int>(schedule_.order.size());
    for (int rank = 0; rank < ranks; ++rank) timing_.makespan = std::max(timing_.makespan, timer_.free(rank));
    const std::vector<int64_t> peaks = PeakActivations(schedule_, microbatches);
    for (int rank = 0; rank < ranks; ++rank) {
      RankTiming& times = timing_.ranks[rank];
      times.idle = timing_.makespan - times.busy;
      times.peak_activations = peaks[rank] * costs.activations;
      timing_.ideal = std::max(timing_.ideal, times.busy);
      if (first_[rank] < 0) {
        times.warm_up = timing_.makespan;
        continue;
      }
      times.tail = timing_.makespan - timer_.free(rank);
      timing_.span = std::max(timing_.span, timer_.free(rank) - first_[rank]);
    }
    timing_.period = timing_.makespan;
    return std::move(timing_);
  }

 private:
  template <typename IndexOf>
  void TimeSome(const std::vector<std::vector<Slot>>& order, int repetition, const IndexOf& index_of) {
    timer_.Run(order, repetition, [&](int rank, int64_t index, int count, const SlotRun& run) {
      RankTiming& times = timing_.ranks[rank];
      times.busy += run.end - run.start;
      if (first_[rank] < 0) {
        first_[rank] = times.warm_up = run.start;
      } else {
        times.dependency += run.computed - run.free;
        times.communication += run.start - run.computed;
      }
      for (int64_t i = index; i < index + count; ++i) {
        timing_.start[rank][index_of(rank, i)] = run.start;
        timing_.end[rank][index_of(rank, i)] = run.end;
      }
    });
  }

  const PipelineSchedule& schedule_;
  ListTimer timer_;
  // The start of each rank's first slot, or -1.
  std::vector<int64_t> first_;
  ScheduleTiming timing_;
};

// The steady state of an asynchronous schedule.
struct Period {
  // The time that `repetitions` repetitions add; 0 if no period was found.
  int64_t time = 0;
  int64_t repetitions = 1;
};

// Returns the difference between the elements of `to` and `from` if it is the same for all elements.
std::optional<int64_t> Shift(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  const int64_t shift = to.empty() ? 0 : to[0] - from[0];
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] - from[i] != shift) return std::nullopt;
  }
  return shift;
}

// Runs repetitions until one starts in the same state as an earlier one. From there on, everything repeats. Gives up
// after kPeriodSearch repetitions, or fewer if the lists are very long. The schedule must be asynchronous
// and checked.
Period FindPeriod(const PipelineSchedule& schedule, int microbatches, const UnitCosts& costs) {
  std::vector<std::vector<Slot>> warm_up;
  std::vector<Result> ahead;
  int64_t slots = 0;
  for (const std::vector<Slot>& order : schedule.order) {
    slots += static_cast<int64_t>(order.size());
    std::vector<Slot>& list = warm_up.emplace_back();
    for (const Slot& slot : order) {
      if (slot.ahead == 0) continue;
      list.push_back(slot);
      if (slot.kind == SlotKind::kBackwardWeight) continue;
      for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
        ahead.push_back({slot.kind != SlotKind::kForward, slot.stage, m});
      }
    }
  }
  // The limit keeps very large lists from running for minutes, and keeps times below 2^62.
  const int64_t most = std::min({int64_t{kPeriodSearch}, (int64_t{1} << 28) / std::max<int64_t>(slots, 1) + 2,
                                 (int64_t{1} << 62) / std::max<int64_t>(costs.longest, 1) - 1});
  ListTimer timer(schedule, microbatches, costs);
  const auto ignore = [](int, int64_t, int, const SlotRun&) {};
  timer.Run(warm_up, -1, ignore);
  // `state` is everything that later repetitions depend on. It is compared with the state after repetition `mark`: 1,
  // 2, 4, ... So the search finds a pattern within three times its length.
  std::vector<int64_t> state, marked;
  int64_t mark = 0;
  for (int64_t repetition = 1; repetition <= most; ++repetition) {
    timer.Run(schedule.order, static_cast<int>(repetition - 1), ignore);
    state.clear();
    for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
      if (!schedule.order[rank].empty()) state.push_back(timer.free(static_cast<int>(rank)));
    }
    for (const Result& result : ahead) state.push_back(timer.end(result, static_cast<int>(repetition)));
    if (mark > 0) {
      if (const std::optional<int64_t> shift = Shift(marked, state)) return {*shift, repetition - mark};
    }
    if (mark == 0 || repetition == 2 * mark) {
      marked = state;
      mark = repetition;
    }
  }
  return {};
}

ScheduleTiming TimeStatic(const PipelineSchedule& schedule, int microbatches, const UnitCosts& costs) {
  TimeRecorder recorder(schedule, microbatches, costs);
  if (!schedule.asynchrony) {
    recorder.TimeAll(schedule.order, 0);
    return recorder.End(microbatches, costs);
  }
  recorder.TimePart(/*ahead=*/1, /*repetition=*/-1);
  recorder.TimePart(/*ahead=*/0, /*repetition=*/0);
  ScheduleTiming timing = recorder.End(microbatches, costs);
  const Period period = FindPeriod(schedule, microbatches, costs);
  timing.period = period.time;
  timing.period_repetitions = period.repetitions;
  return timing;
}

// A static schedule with the slots of each rank in the given order.
PipelineSchedule Reordered(const PipelineSchedule& schedule, const std::vector<std::vector<int32_t>>& order) {
  PipelineSchedule result = {.stages = schedule.stages,
                             .lanes = schedule.lanes,
                             .placement = schedule.placement,
                             .order = std::vector<std::vector<Slot>>(schedule.order.size())};
  for (size_t rank = 0; rank < order.size(); ++rank) {
    result.order[rank].reserve(order[rank].size());
    for (int32_t i : order[rank]) result.order[rank].push_back(schedule.order[rank][i]);
  }
  return result;
}

// `costs` are the last arguments of MakeUnitCosts.
template <typename... Costs>
absl::StatusOr<PipelineSchedule> Frozen(const PipelineSchedule& schedule, int microbatches, Costs&&... costs) {
  if (absl::Status status = CheckSchedule(schedule, microbatches); !status.ok()) return status;
  const absl::StatusOr<UnitCosts> unit_costs = MakeUnitCosts(schedule, microbatches, std::forward<Costs>(costs)...);
  if (!unit_costs.ok()) return unit_costs.status();
  if (!schedule.message_driven) return schedule;
  return Reordered(schedule, ReplayMessageDriven(schedule, microbatches, *unit_costs));
}

}  // namespace

absl::StatusOr<ScheduleTiming> TimeSchedule(const PipelineSchedule& schedule, int microbatches,
                                            const SlotCosts& costs) {
  if (absl::Status status = CheckSchedule(schedule, microbatches); !status.ok()) return status;
  const absl::StatusOr<UnitCosts> unit_costs = MakeUnitCosts(schedule, microbatches, costs);
  if (!unit_costs.ok()) return unit_costs.status();
  if (!schedule.message_driven) return TimeStatic(schedule, microbatches, *unit_costs);

  // A static schedule in the order that the ranks choose takes the same time.
  const std::vector<std::vector<int32_t>> order = ReplayMessageDriven(schedule, microbatches, *unit_costs);
  const PipelineSchedule frozen = Reordered(schedule, order);
  ScheduleTiming timing = TimeStatic(frozen, microbatches, *unit_costs);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    std::vector<int64_t> start(order[rank].size()), end(order[rank].size());
    for (size_t i = 0; i < order[rank].size(); ++i) {
      start[order[rank][i]] = timing.start[rank][i];
      end[order[rank][i]] = timing.end[rank][i];
    }
    timing.start[rank] = std::move(start);
    timing.end[rank] = std::move(end);
  }
  return timing;
}

absl::StatusOr<ScheduleTiming> TimeSchedule(const PipelineSchedule& schedule, int microbatches,
                                            std::vector<StageCosts> costs, int64_t p2p) {
  if (schedule.message_driven || schedule.asynchrony) {
    return absl::InvalidArgumentError("costs by stage need a static schedule that flushes");
  }
  if (absl::Status status = CheckSchedule(schedule, microbatches); !status.ok()) return status;
  const absl::StatusOr<UnitCosts> unit_costs = MakeUnitCosts(schedule, microbatches, std::move(costs), p2p);
  if (!unit_costs.ok()) return unit_costs.status();
  return TimeStatic(schedule, microbatches, *unit_costs);
}

absl::StatusOr<PipelineSchedule> FreezeSchedule(const PipelineSchedule& schedule, int microbatches,
                                                const SlotCosts& costs) {
  return Frozen(schedule, microbatches, costs);
}

absl::StatusOr<PipelineSchedule> FreezeSchedule(const PipelineSchedule& schedule, int microbatches,
                                                std::vector<StageCosts> costs, int64_t p2p) {
  return Frozen(schedule, microbatches, std::move(costs), p2p);
}

}  // namespace weft
