#include "planner/search/schedule_shape.h"

#include <algorithm>

namespace weft::planner {

ScheduleShape ShapeOf(const PipelineSchedule& schedule, bool frees_between_halves) {
  ScheduleShape shape{.stages = schedule.stages, .placement = schedule.placement};
  shape.microbatches.resize(schedule.lanes);
  for (const std::vector<Slot>& order : schedule.order) {
    std::vector<ScheduleShape::Held>& held = shape.held.emplace_back();
    std::map<int, int64_t>& paired = shape.paired_forwards.emplace_back();
    std::map<int, int64_t> saved, gradients;
    // Microbatches in `saved` and `gradients` together, and the most so far.
    int64_t pairs = 0, most = 0;
    for (const Slot& slot : order) {
      if (slot.kind == SlotKind::kForward) {
        shape.widest = std::max<int64_t>(shape.widest, slot.width);
        saved[slot.stage] += slot.width;
        pairs += slot.width;
        if (slot.paired) ++paired[slot.stage];
        if (slot.stage == 0) shape.microbatches[slot.lane] += slot.width;
        continue;
      }
      shape.split_backward |= slot.kind == SlotKind::kBackwardInput;
      shape.whole_backward |= slot.kind == SlotKind::kBackward;
      if (slot.kind == SlotKind::kBackwardInput) {
        ++gradients[slot.stage];
        ++pairs;
      }
      if (slot.kind != SlotKind::kBackwardWeight && pairs >= most) {
        if (pairs > most) held.clear();
        most = pairs;
        ScheduleShape::Held moment{slot.stage, {saved.begin(), saved.end()}, {gradients.begin(), gradients.end()}};
        if (held.size() < kMaxMoments && std::find(held.begin(), held.end(), moment) == held.end()) {
          held.push_back(std::move(moment));
        }
      }
      if (slot.kind == SlotKind::kBackwardWeight) {
        --gradients[slot.stage];
        --pairs;
      }
      const SlotKind last = !shape.split_backward || slot.kind == SlotKind::kBackward ? SlotKind::kBackward
                            : frees_between_halves                                    ? SlotKind::kBackwardInput
                                                                                      : SlotKind::kBackwardWeight;
      if (slot.kind == last) {
        --saved[slot.stage];
        --pairs;
      }
    }
  }
  return shape;
}

}  // namespace weft::planner
