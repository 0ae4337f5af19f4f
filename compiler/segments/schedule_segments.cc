#include "compiler/segments/schedule_segments.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/segments/pair_segments.h"
#include "compiler/segments/slot_segments.h"
#include "compiler/segments/widen_segment.h"
#include "proto/util/status.h"

namespace weft {
namespace {

using ir::SegmentKind;

int& IndexOf(StageIndex& stage, SegmentKind kind) {
  switch (kind) {
    case SegmentKind::Backward:
      return stage.backward;
    case SegmentKind::BackwardInput:
      return stage.backward_input;
    case SegmentKind::BackwardWeight:
      return stage.backward_weight;
    default:
      return stage.forward;
  }
}

class Selector {
 public:
  Selector(const StepCost& cost, SegmentSet* set) : cost_(cost), set_(*set) {}

  // Identifies a segment: (stage, kind, width, part, stage of the backward).
  using Key = std::tuple<int, int, int, int, int>;

  absl::Status Add(const Slot& slot, int part) {
    const SegmentKind kind = SegmentKindOf(slot.kind);
    const Key key = {slot.stage, static_cast<int>(kind), slot.width, part, -1};
    if (chosen_.contains(key)) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(chosen_[key], Make(slot, part));
    return absl::OkStatus();
  }

  absl::Status AddPair(const Slot& forward, const Slot& backward, int part) {
    const Key key = {forward.stage, static_cast<int>(SegmentKind::ForwardBackward), 1, part, backward.stage};
    if (chosen_.contains(key)) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(const StageSegment first, Make(forward, -1));
    WEFT_ASSIGN_OR_RETURN(const StageSegment second, Make(backward, part));
    WEFT_ASSIGN_OR_RETURN(chosen_[key], MergeSegments(first, second, cost_));
    return absl::OkStatus();
  }

  void Finish() {
    std::vector<StageSegment> segments;
    for (StageIndex& stage : set_.stages) {
      stage.forward = stage.backward = stage.backward_input = stage.backward_weight = -1;
    }
    for (auto& [key, segment] : chosen_) {
      const auto [stage, kind, width, part, backward_stage] = key;
      if (width == 1 && part < 0 && backward_stage < 0) {
        IndexOf(set_.stages[stage], segment.kind) = static_cast<int>(segments.size());
      }
      segments.push_back(std::move(segment));
    }
    for (RankIndex& rank : set_.ranks) {
      for (int* index : {&rank.grad_norm, &rank.scale_gradients, &rank.optimizer_step}) {
        if (*index < 0) continue;
        segments.push_back(std::move(set_.segments[*index]));
        *index = static_cast<int>(segments.size()) - 1;
      }
    }
    set_.segments = std::move(segments);
  }

 private:
  absl::StatusOr<StageSegment> Make(const Slot& slot, int part) {
    const SegmentKind kind = SegmentKindOf(slot.kind);
    const int forward = set_.stages[slot.stage].forward;
    const int plain = IndexOf(set_.stages[slot.stage], kind);
    if (forward < 0 || plain < 0) {
      return absl::InternalError(
          absl::StrCat("stage ", slot.stage, " has no segment of kind ", ir::stringifySegmentKind(kind).str()));
    }
    if (slot.width > 1) return WidenForward(set_.segments[forward]);
    if (part >= 0) return BackwardOfWide(set_.segments[forward], set_.segments[plain], part);
    return set_.segments[plain];
  }

  const StepCost& cost_;
  SegmentSet& set_;
  std::map<Key, StageSegment> chosen_;
};

}  // namespace

BackwardKinds BackwardKindsOf(const PipelineSchedule& schedule) {
  BackwardKinds kinds;
  for (const std::vector<Slot>& order : schedule.order) {
    for (const Slot& slot : order) {
      kinds.whole |= slot.kind == SlotKind::kBackward;
      kinds.split |= slot.kind == SlotKind::kBackwardInput || slot.kind == SlotKind::kBackwardWeight;
    }
  }
  return kinds;
}

std::vector<int32_t> MicrobatchesInFlight(const PipelineSchedule& schedule) {
  std::vector<int32_t> most(schedule.stages, 1);
  for (const std::vector<Slot>& order : schedule.order) {
    std::vector<int32_t> now(schedule.stages, 0);
    // In an asynchronous schedule, the rank has run the forwards with `ahead` before the first repetition.
    for (const Slot& slot : order) now[slot.stage] += slot.ahead > 0 ? slot.width : 0;
    for (const Slot& slot : order) {
      if (slot.kind == SlotKind::kForward) now[slot.stage] += slot.width;
      most[slot.stage] = std::max(most[slot.stage], now[slot.stage]);
      if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardWeight) --now[slot.stage];
    }
  }
  if (schedule.message_driven) std::fill(most.begin(), most.end(), schedule.message_driven->limit);
  return most;
}

absl::Status SelectSegments(const PipelineSchedule& schedule, const StepCost& cost, SegmentSet* set) {
  // The position of each microbatch in its wide forward, -1 if its forward is not wide. It is the same in all stages.
  std::map<int, int> part_of;
  for (const std::vector<Slot>& order : schedule.order) {
    for (const Slot& slot : order) {
      if (slot.kind != SlotKind::kForward || slot.width == 1) continue;
      for (int i = 0; i < slot.width; ++i) part_of[slot.microbatch + i] = i;
    }
  }
  auto part = [&](const Slot& slot) {
    auto found = part_of.find(slot.microbatch);
    return found == part_of.end() || slot.kind == SlotKind::kForward ? -1 : found->second;
  };
  Selector selector(cost, set);
  for (const std::vector<Slot>& order : schedule.order) {
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i].paired) {
        WEFT_RETURN_IF_ERROR(selector.AddPair(order[i], order[i + 1], part(order[i + 1])));
        ++i;
      } else {
        WEFT_RETURN_IF_ERROR(selector.Add(order[i], part(order[i])));
      }
    }
  }
  selector.Finish();
  return absl::OkStatus();
}

}  // namespace weft
