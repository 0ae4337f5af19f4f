#include "schedules/pipeline/message_driven.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "schedules/pipeline/dependencies.h"

namespace weft {
namespace {

constexpr int64_t kNever = -1;

class Replay {
 public:
  Replay(const PipelineSchedule& schedule, int microbatches, const UnitCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        ends_(schedule.stages, microbatches),
        started_(schedule.stages),
        through_(schedule.stages),
        ranks_(schedule.order.size()),
        result_(schedule.order.size()) {
    for (int stage = 0; stage < schedule.stages; ++stage) {
      for (int m = 0; m < microbatches; ++m) ends_.end({false, stage, m}) = ends_.end({true, stage, m}) = kNever;
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
        ranks_[rank].queue[schedule.order[rank][i].kind != SlotKind::kForward].push_back(static_cast<int32_t>(i));
      }
      result_[rank].reserve(schedule.order[rank].size());
    }
  }

  std::vector<std::vector<int32_t>> Run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) events_.push({0, static_cast<int>(rank)});
    // At the time of each event a rank may have become free, or a result may have reached it.
    while (!events_.empty()) {
      const auto [now, rank] = events_.top();
      events_.pop();
      if (ranks_[rank].free <= now) StartOne(rank, now);
    }
    return std::move(result_);
  }

 private:
  struct Rank {
    int64_t free = 0;
    // queue[0] has the forwards, queue[1] the backwards, as indices into the order. `head` is the first that has not
    // started.
    std::array<std::vector<int32_t>, 2> queue;
    std::array<size_t, 2> head = {};
  };
  // `ready`: the head of a queue can start now. `order`: the key for the choice; the smaller goes first.
  struct Candidate {
    bool ready = false;
    std::tuple<bool, int64_t, int, int> order = {};
  };

  const Slot& SlotOf(int rank, int queue) const {
    return schedule_.order[rank][ranks_[rank].queue[queue][ranks_[rank].head[queue]]];
  }

  Candidate Consider(int rank, int queue, int64_t now) {
    if (ranks_[rank].head[queue] == ranks_[rank].queue[queue].size()) return {};
    const Slot& slot = SlotOf(rank, queue);
    bool receives = false;
    // The time when the last of the slot's inputs arrived; -1, which is before all others, if it has none.
    int64_t last = -1;
    for (const Result& need : SlotInputs(slot, slot.microbatch, schedule_.stages)) {
      if (need.stage < 0) continue;
      const bool remote = schedule_.placement[0][need.stage] != rank;
      const int64_t end = ends_.end(need);
      const int64_t there = end + (remote ? costs_.p2p : 0);
      if (end == kNever || there > now) return {};
      receives = receives || remote;
      last = std::max(last, there);
    }
    const int64_t freed = started_[slot.stage] - int64_t{schedule_.message_driven->limit};
    if (queue == 0 && freed >= 0) {
      const std::vector<int64_t>& through = through_[slot.stage];
      if (freed >= static_cast<int64_t>(through.size()) || through[freed] > now) return {};
      last = std::max(last, through[freed]);
    }
    if (schedule_.message_driven->rule == MessageDriven::Rule::kBackwardFirst) return {true, {queue == 0, 0, 0, 0}};
    return {true, {receives, last, queue, slot.microbatch}};
  }

  void StartOne(int rank, int64_t now) {
    const Candidate forward = Consider(rank, 0, now), backward = Consider(rank, 1, now);
    if (!forward.ready && !backward.ready) return;
    const int queue = !forward.ready || (backward.ready && backward.order < forward.order) ? 1 : 0;
    const Slot& slot = SlotOf(rank, queue);
    const int64_t end = now + costs_.TimeOf(slot);
    Rank& state = ranks_[rank];
    result_[rank].push_back(state.queue[queue][state.head[queue]++]);
    state.free = end;
    events_.push({end, rank});
    if (queue == 0) ++started_[slot.stage];
    if (EndsMicrobatch(slot)) through_[slot.stage].push_back(end);
    if (slot.kind == SlotKind::kBackwardWeight) return;
    ends_.end({queue == 1, slot.stage, slot.microbatch}) = end;
    const int user = slot.stage + (queue == 0 ? 1 : -1);
    if (user < 0 || user >= schedule_.stages) return;
    const int user_rank = schedule_.placement[0][user];
    if (user_rank != rank) events_.push({end + costs_.p2p, user_rank});
  }

  const PipelineSchedule& schedule_;
  const UnitCosts& costs_;
  ResultTimes ends_;
  // Number of forwards that have started, by stage.
  std::vector<int64_t> started_;
  // Times when microbatches ended, by stage, in their order.
  std::vector<std::vector<int64_t>> through_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<int32_t>> result_;
  using Event = std::pair<int64_t, int>;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
};

}  // namespace

std::vector<std::vector<int32_t>> ReplayMessageDriven(const PipelineSchedule& schedule, int microbatches,
                                                      const UnitCosts& costs) {
  return Replay(schedule, microbatches, costs).Run();
}

}  // namespace weft
