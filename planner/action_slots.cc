#include "planner/action_slots.h"

#include <algorithm>

namespace weft::planner {

std::vector<Slot> SlotsOf(const Action& action) {
  Slot slot = {.lane = static_cast<int16_t>(action.lane()),
               .stage = action.stage(),
               .microbatch = action.microbatch(),
               .width = static_cast<uint8_t>(std::max(1, action.width()))};
  switch (action.kind()) {
    case FORWARD:
      return {slot};
    case BACKWARD:
      slot.kind = SlotKind::kBackward;
      return {slot};
    case BACKWARD_INPUT:
      slot.kind = SlotKind::kBackwardInput;
      return {slot};
    case BACKWARD_WEIGHT:
      slot.kind = SlotKind::kBackwardWeight;
      return {slot};
    case FORWARD_BACKWARD: {
      slot.paired = true;
      const StageMicrobatch& backward = action.backward();
      return {slot,
              {.kind = SlotKind::kBackward,
               .lane = static_cast<int16_t>(backward.lane()),
               .stage = backward.stage(),
               .microbatch = backward.microbatch()}};
    }
    default:
      return {};
  }
}

}  // namespace weft::planner
