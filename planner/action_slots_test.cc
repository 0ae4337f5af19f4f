#include "planner/action_slots.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::planner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Action ActionOf(ActionKind kind) {
  Action action;
  action.set_kind(kind);
  action.set_stage(3);
  action.set_microbatch(5);
  action.set_lane(1);
  return action;
}

TEST(SlotsOf, EveryKindOfCompute) {
  const Slot slot = {.lane = 1, .stage = 3, .microbatch = 5};
  auto with = [&](SlotKind kind) {
    Slot other = slot;
    other.kind = kind;
    return other;
  };
  EXPECT_THAT(SlotsOf(ActionOf(FORWARD)), ElementsAre(slot));
  EXPECT_THAT(SlotsOf(ActionOf(BACKWARD)), ElementsAre(with(SlotKind::kBackward)));
  EXPECT_THAT(SlotsOf(ActionOf(BACKWARD_INPUT)), ElementsAre(with(SlotKind::kBackwardInput)));
  EXPECT_THAT(SlotsOf(ActionOf(BACKWARD_WEIGHT)), ElementsAre(with(SlotKind::kBackwardWeight)));
  for (const ActionKind kind : {SEND, RECV, ALL_REDUCE, GRAD_NORM, SCALE_GRADIENTS, OPTIMIZER_STEP}) {
    EXPECT_THAT(SlotsOf(ActionOf(kind)), IsEmpty()) << ActionKind_Name(kind);
  }
}

TEST(SlotsOf, WidthsAndPairs) {
  Action wide = ActionOf(FORWARD);
  wide.set_width(2);
  EXPECT_EQ(SlotsOf(wide).at(0).width, 2);
  Action pair = ActionOf(FORWARD_BACKWARD);
  pair.mutable_backward()->set_stage(7);
  pair.mutable_backward()->set_microbatch(2);
  EXPECT_THAT(SlotsOf(pair), ElementsAre(Slot{.lane = 1, .stage = 3, .microbatch = 5, .paired = true},
                                         Slot{.kind = SlotKind::kBackward, .stage = 7, .microbatch = 2}));
}

}  // namespace
}  // namespace weft::planner
