// Start and end times of slots that run in a given order: the arithmetic that all kinds of schedules share.
#ifndef WEFT_SCHEDULES_PIPELINE_SLOT_TIMES_H_
#define WEFT_SCHEDULES_PIPELINE_SLOT_TIMES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/dependencies.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Costs of a schedule's slots as integers: multiples of 1 / `unit` of the unit of SlotCosts.
struct UnitCosts {
  int64_t unit = 1;
  // Costs of one slot for one microbatch.
  int64_t forward = 0, backward = 0, weight = 0, pair = 0, p2p = 0;
  // The activations of a microbatch in one stage, in multiples of 1 / `unit` of its activations on one whole rank.
  int64_t activations = 1;
  // An upper bound on the time of a repetition, in any order.
  int64_t longest = 0;
  // If not empty, the costs of slots by stage; `forward`, `backward`, `weight` and `pair` then have no meaning.
  std::vector<StageCosts> stages = {};

  int64_t TimeOf(const Slot& slot) const {
    if (!stages.empty()) return TimeByStage(slot);
    switch (slot.kind) {
      case SlotKind::kForward:
        return forward * slot.width;
      case SlotKind::kBackward:
        return backward;
      case SlotKind::kBackwardInput:
        return backward - weight;
      case SlotKind::kBackwardWeight:
        return weight;
    }
    return 0;
  }
  // The time of a forward and a backward that run as one action.
  int64_t TimeOfPair(const Slot& first, const Slot& second) const {
    return stages.empty() ? pair : std::max(TimeByStage(first), TimeByStage(second));
  }

 private:
  int64_t TimeByStage(const Slot& slot) const {
    const StageCosts& costs = stages[slot.stage];
    switch (slot.kind) {
      case SlotKind::kForward:
        return costs.forward * slot.width;
      case SlotKind::kBackward:
        return costs.backward;
      case SlotKind::kBackwardInput:
        return costs.backward_input;
      case SlotKind::kBackwardWeight:
        return costs.backward_weight;
    }
    return 0;
  }
};

// Returns InvalidArgument if a cost is out of range, a stage has no costs, or times would not fit.
absl::StatusOr<UnitCosts> MakeUnitCosts(const PipelineSchedule& schedule, int microbatches,
                                        std::vector<StageCosts> costs, int64_t p2p);
absl::StatusOr<UnitCosts> MakeUnitCosts(const PipelineSchedule& schedule, int microbatches, const SlotCosts& costs);

// The times at which the slots of one repetition end, by the result that a slot computes. A list can contain slots of
// two repetitions, but a slot and all its inputs belong to the same repetition.
class ResultTimes {
 public:
  ResultTimes(int stages, int microbatches)
      : microbatches_(microbatches), ends_(int64_t{2} * stages * microbatches), stages_(stages) {}
  int64_t& end(const Result& r) {
    return ends_[(static_cast<int64_t>(r.gradient ? stages_ : 0) + r.stage) * microbatches_ + r.microbatch];
  }

 private:
  int64_t microbatches_;
  std::vector<int64_t> ends_;
  int stages_;
};

// The times of a slot or a pair: when it ran, when its rank was free, and when its inputs were computed.
struct SlotRun {
  int64_t start = 0;
  int64_t end = 0;
  // `free`: when its rank was free. `computed`: when, in addition, all its inputs were computed, even if not yet
  // received.
  int64_t free = 0;
  int64_t computed = 0;
};

// Times lists of slots: each slot starts as early as its rank and its inputs allow. If Run is called again, the new
// lists continue where the last ones ended.
class ListTimer {
 public:
  // `schedule` (static and checked) and `costs` must outlive the timer.
  ListTimer(const PipelineSchedule& schedule, int microbatches, const UnitCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        table_(MakeSlotTable(schedule, microbatches)),
        free_(schedule.order.size()),
        times_(schedule.asynchrony ? 2 : 1, ResultTimes(schedule.stages, microbatches)) {}

  // Times the lists `order`, one per rank like schedule.order. Slots with `ahead` belong to the repetition after this
  // one. Calls on_run(rank, index, count, SlotRun) for the `count` slots (2 if a pair, else 1) from `index` on.
  template <typename OnRun>
  void Run(const std::vector<std::vector<Slot>>& order, int repetition, const OnRun& on_run);

  int64_t free(int rank) const { return free_[rank]; }
  int64_t end(const Result& result, int repetition) { return Times(repetition).end(result); }
  const SlotTable& table() const { return table_; }

 private:
  ResultTimes& Times(int repetition) { return times_[times_.size() == 1 ? 0 : repetition & 1]; }

  const PipelineSchedule& schedule_;
  const UnitCosts& costs_;
  SlotTable table_;
  std::vector<int64_t> free_;
  std::vector<ResultTimes> times_;
};

template <typename OnRun>
void ListTimer::Run(const std::vector<std::vector<Slot>>& order, int repetition, const OnRun& on_run) {
  table_.ClearDone();
  SlotLists lists(schedule_, order, table_);
  lists.Run([&](int64_t list, int64_t index, int count) {
    const int rank = static_cast<int>(list);
    SlotRun run = {.start = free_[rank], .end = 0, .free = free_[rank], .computed = free_[rank]};
    for (int64_t i = index; i < index + count; ++i) {
      const Slot& slot = order[rank][i];
      ResultTimes& times = Times(repetition + slot.ahead);
      for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
        for (const Result& input : SlotInputs(slot, m, schedule_.stages)) {
          if (input.stage < 0) continue;
          const int64_t end = times.end(input);
          run.computed = std::max(run.computed, end);
          run.start = std::max(run.start, end + (schedule_.placement[slot.lane][input.stage] == rank ? 0 : costs_.p2p));
        }
      }
    }
    run.end = run.start + (count == 2 ? costs_.TimeOfPair(order[rank][index], order[rank][index + 1])
                                      : costs_.TimeOf(order[rank][index]));
    free_[rank] = run.end;
    for (int64_t i = index; i < index + count; ++i) {
      const Slot& slot = order[rank][i];
      if (slot.kind == SlotKind::kBackwardWeight) continue;
      ResultTimes& times = Times(repetition + slot.ahead);
      for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
        times.end({slot.kind != SlotKind::kForward, slot.stage, m}) = run.end;
      }
    }
    on_run(rank, index, count, run);
  });
}

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_SLOT_TIMES_H_
