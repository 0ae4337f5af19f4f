// Tests the checker on backwards in halves, doubled forwards, pairs, message-driven and asynchronous lists.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr auto F = SlotKind::kForward, B = SlotKind::kBackward, I = SlotKind::kBackwardInput,
               W = SlotKind::kBackwardWeight;

Slot S(SlotKind kind, int stage, int microbatch) { return {.kind = kind, .stage = stage, .microbatch = microbatch}; }
Slot Wide(int stage, int microbatch) { return {.kind = F, .stage = stage, .microbatch = microbatch, .width = 2}; }
Slot Paired(int stage, int microbatch) { return {.kind = F, .stage = stage, .microbatch = microbatch, .paired = true}; }
Slot Ahead(SlotKind kind, int stage, int microbatch) {
  return {.kind = kind, .stage = stage, .microbatch = microbatch, .ahead = 1};
}

std::string Message(const PipelineSchedule& schedule, int microbatches) {
  return std::string(CheckSchedule(schedule, microbatches).message());
}

// A schedule with one lane and stage i on rank i.
PipelineSchedule Linear(std::vector<std::vector<Slot>> order) {
  PipelineSchedule schedule = {.stages = static_cast<int>(order.size()), .placement = {{}}, .order = std::move(order)};
  for (int rank = 0; rank < schedule.stages; ++rank) schedule.placement[0].push_back(rank);
  return schedule;
}

TEST(CheckHalves, BothOrTheWhole) {
  PipelineSchedule schedule = Linear({{S(F, 0, 0), S(F, 0, 1), S(I, 0, 0), S(B, 0, 1), S(W, 0, 0)},
                                      {S(F, 1, 0), S(B, 1, 0), S(F, 1, 1), S(I, 1, 1), S(W, 1, 1)}});
  EXPECT_EQ(CheckSchedule(schedule, 2), absl::OkStatus());
  // With backwards in halves, the order of the weight gradients matters for accumulation.
  EXPECT_EQ(CheckAccumulationOrder(schedule).message(),
            "rank 0: W s0 m0 comes after B s0 m1; gradients must accumulate in ascending microbatch order (rule P9), "
            "unless accumulation is EXACT");
  std::swap(schedule.order[0][3], schedule.order[0][4]);
  EXPECT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());

  PipelineSchedule both = schedule;
  both.order[0].push_back(S(B, 0, 0));
  EXPECT_EQ(Message(both, 2), "rank 0, slot B s0 m0: the stage runs this backward both whole and in halves");
  PipelineSchedule lost = schedule;
  lost.order[1].pop_back();
  EXPECT_EQ(Message(lost, 2), "slot W s1 m1 is missing; expected on rank 1");
  lost.order[1].back() = S(W, 1, 1);
  EXPECT_EQ(Message(lost, 2), "slot I s1 m1 is missing; expected on rank 1");
  std::swap(schedule.order[1][3], schedule.order[1][4]);
  EXPECT_EQ(Message(schedule, 2), "rank 1: W s1 m1 comes before I s1 m1, whose result it needs");
}

TEST(CheckWidth, AlikeInAllStages) {
  PipelineSchedule schedule = Linear({{Wide(0, 0), S(F, 0, 2), S(B, 0, 0), S(B, 0, 1), S(B, 0, 2)},
                                      {Wide(1, 0), S(B, 1, 0), S(B, 1, 1), S(F, 1, 2), S(B, 1, 2)}});
  EXPECT_EQ(CheckSchedule(schedule, 3), absl::OkStatus());
  EXPECT_EQ(SlotName(schedule, schedule.order[0][0]), "F s0 m0-1");
  PipelineSchedule other = schedule;
  other.order[1].insert(other.order[1].begin(), {S(F, 1, 0), S(F, 1, 1)});
  other.order[1].erase(other.order[1].begin() + 2);
  EXPECT_EQ(Message(other, 3),
            "rank 1, slot F s1 m0: elsewhere the forward of microbatch 0 computes two microbatches, from 0 on");
  other = schedule;
  other.order[0][2].width = 2;
  EXPECT_THAT(Message(other, 3), HasSubstr("width 2; allowed: 1, and 2 for forwards"));
  other = schedule;
  other.order[0][0].width = 3;
  EXPECT_THAT(Message(other, 3), HasSubstr("width 3"));
  other.order[0][0].width = 0;
  EXPECT_THAT(Message(other, 3), HasSubstr("width 0"));
  other = schedule;
  other.order[0][1].width = 2;
  EXPECT_THAT(Message(other, 3), HasSubstr("rank 0, slot F s0 m2-3: microbatches are 0 to 2"));
}

TEST(CheckPairs, StartTogether) {
  PipelineSchedule schedule =
      Linear({{S(F, 0, 0), S(F, 0, 1), S(B, 0, 0), S(B, 0, 1)}, {S(F, 1, 0), Paired(1, 1), S(B, 1, 0), S(B, 1, 1)}});
  EXPECT_EQ(CheckSchedule(schedule, 2), absl::OkStatus());
  // If rank 0 runs its forward of microbatch 1 and its backward of microbatch 0 as a pair, the pair waits for rank 1,
  // and rank 1 waits for that forward.
  PipelineSchedule stuck = schedule;
  stuck.order[0][1].paired = true;
  EXPECT_EQ(
      Message(stuck, 2),
      "deadlock: F s0 m1 & B s0 m0 (rank 0) waits for F s1 m1 & B s1 m0 (rank 1) waits for F s0 m1 & B s0 m0 (rank 0)");
  PipelineSchedule wrong = schedule;
  wrong.order[1][3].paired = true;
  EXPECT_EQ(Message(wrong, 2), "rank 1, slot B s1 m1: the first of a pair must be a forward of one microbatch");
  wrong = schedule;
  wrong.order[1][0].paired = true;
  EXPECT_THAT(Message(wrong, 2), HasSubstr("slot F s1 m0: paired with F s1 m1; the second of a pair must be a whole"));
  wrong = Linear({{S(F, 0, 0), Paired(0, 1), S(B, 0, 1), S(B, 0, 0)}});
  EXPECT_EQ(Message(wrong, 2), "rank 0: B s0 m1 is paired with F s0 m1, whose result it needs");
  wrong = Linear({{S(F, 0, 0), S(B, 0, 0), Paired(0, 1)}});
  EXPECT_EQ(Message(wrong, 2), "rank 0, slot F s0 m1: paired with nothing, as it is the last of its rank");
}

// Each half of a pair belongs to a forward of one microbatch, not to a doubled forward.
TEST(CheckPairs, NotOfWideForwards) {
  PipelineSchedule schedule = Linear({{Wide(0, 0), S(F, 0, 2), S(B, 0, 0), S(B, 0, 1), S(B, 0, 2)}});
  EXPECT_EQ(CheckSchedule(schedule, 3), absl::OkStatus());
  PipelineSchedule wrong = schedule;
  wrong.order[0][1].paired = true;
  EXPECT_EQ(Message(wrong, 3),
            "rank 0, slot F s0 m2: paired with B s0 m0, whose forward is of microbatches 0 and 1; both slots of a pair "
            "must belong to forwards of one microbatch");
  wrong = Linear({{S(F, 0, 0),
                   {.kind = F, .stage = 0, .microbatch = 1, .width = 2, .paired = true},
                   S(B, 0, 0),
                   S(B, 0, 1),
                   S(B, 0, 2)}});
  EXPECT_EQ(Message(wrong, 3), "rank 0, slot F s0 m1-2: the first of a pair must be a forward of one microbatch");
}

// Only data dependencies and the limit order slots of the two queues relative to each other.
TEST(CheckMessageDriven, QueuesAndLimit) {
  PipelineSchedule schedule =
      Linear({{S(B, 0, 0), S(B, 0, 1), S(F, 0, 0), S(F, 0, 1)}, {S(F, 1, 0), S(F, 1, 1), S(B, 1, 0), S(B, 1, 1)}});
  schedule.message_driven = MessageDriven{.limit = 2};
  EXPECT_EQ(CheckSchedule(schedule, 2), absl::OkStatus());
  PipelineSchedule order = schedule;
  std::swap(order.order[1][0], order.order[1][1]);
  EXPECT_THAT(Message(order, 2),
              HasSubstr("rank 1: F s1 m1 comes where stage 0 has microbatch 0; in a message-driven"));
  order = schedule;
  std::swap(order.order[0][0], order.order[0][1]);
  EXPECT_THAT(Message(order, 2), HasSubstr("rank 0: B s0 m1 comes where stage 0 has microbatch 0"));
  order.message_driven->limit = 0;
  EXPECT_EQ(Message(order, 2), "message-driven limit = 0; allowed: at least 1");
  schedule.asynchrony.emplace();
  EXPECT_EQ(Message(schedule, 2), "a schedule must not be both message-driven and asynchronous");
  schedule.asynchrony.reset();
  schedule.order[1][1].paired = true;
  EXPECT_THAT(Message(schedule, 2), HasSubstr("only static schedules may have pairs"));
}

// Two ranks with stage i on rank i. Both take the microbatches in the order `order`.
PipelineSchedule Driven(const std::vector<int>& order, int limit, bool halves = false) {
  PipelineSchedule schedule = Linear({{}, {}});
  for (int rank = 0; rank < 2; ++rank) {
    for (SlotKind kind : {F, halves ? I : B, W}) {
      for (int m : order) {
        if (kind != W || halves) schedule.order[rank].push_back(S(kind, rank, m));
      }
    }
  }
  schedule.message_driven = MessageDriven{.rule = MessageDriven::Rule::kBackwardFirst, .limit = limit};
  return schedule;
}

// The limit counts positions in the common order, not microbatch numbers.
TEST(CheckMessageDriven, LimitGoesByTheCommonOrder) {
  EXPECT_EQ(CheckSchedule(Driven({0, 2, 1, 3}, 2), 4), absl::OkStatus());
  EXPECT_EQ(CheckSchedule(Driven({2, 1, 0}, 1), 3), absl::OkStatus());
}

// A microbatch counts towards the limit until its activations are freed, which is after the second half of its
// backward.
TEST(CheckMessageDriven, LimitHoldsUntilWeightsAreDone) {
  EXPECT_EQ(Message(Driven({0, 1, 2}, 1, /*halves=*/true), 3),
            "deadlock: F s0 m1 (rank 0) waits for W s0 m0 (rank 0) waits for I s0 m1 (rank 0) waits for F s0 m1 "
            "(rank 0)");
  EXPECT_EQ(CheckSchedule(Driven({0, 1, 2}, 3, true), 3), absl::OkStatus());
  PipelineSchedule alternating = Linear({{S(F, 0, 0), S(F, 0, 1), S(I, 0, 0), S(W, 0, 0), S(I, 0, 1), S(W, 0, 1)}});
  alternating.message_driven = MessageDriven{.limit = 1};
  EXPECT_EQ(CheckSchedule(alternating, 2), absl::OkStatus());
}

TEST(CheckMessageDriven, OneBoundaryPerEdge) {
  auto placed = [](const std::vector<int>& ranks) {
    PipelineSchedule schedule = {.stages = static_cast<int>(ranks.size()), .placement = {ranks}, .order = {{}, {}}};
    for (int stage = 0; stage < schedule.stages; ++stage) schedule.order[ranks[stage]].push_back(S(F, stage, 0));
    for (int stage = schedule.stages; stage-- > 0;) schedule.order[ranks[stage]].push_back(S(B, stage, 0));
    EXPECT_EQ(CheckSchedule(schedule, 1), absl::OkStatus());
    schedule.message_driven = MessageDriven{};
    return schedule;
  };
  EXPECT_EQ(CheckSchedule(placed({0, 1, 1, 0}), 1), absl::OkStatus());
  EXPECT_EQ(CheckSchedule(placed({0, 0, 1}), 1), absl::OkStatus());
  EXPECT_EQ(CheckSchedule(placed({0, 1, 0}), 1), absl::OkStatus());
  EXPECT_EQ(
      Message(placed({0, 1, 0, 1}), 1),
      "stages 0 and 2 both pass results on from rank 0 to rank 1; in a message-driven schedule at most one stage of a "
      "rank does so to each other rank (one stage per rank, or stages that run back and forth over the ranks)");
  EXPECT_THAT(Message(placed({0, 1, 1, 0, 0, 1}), 1),
              HasSubstr("stages 0 and 4 both pass results on from rank 0 to rank 1"));
}

TEST(CheckAsynchronous, SlotsOfTheNextStepWaitOnlyForEachOther) {
  PipelineSchedule schedule = Linear({{Ahead(F, 0, 0), S(B, 0, 0)}, {S(F, 1, 0), S(B, 1, 0)}});
  EXPECT_EQ(Message(schedule, 1),
            "rank 0, slot F s0 m0 (next): ahead by 1; allowed: 0, and 1 in asynchronous schedules");
  schedule.asynchrony = Asynchrony{.versions = {2, 1}};
  EXPECT_EQ(CheckSchedule(schedule, 1), absl::OkStatus());
  EXPECT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
  PipelineSchedule other = schedule;
  std::swap(other.order[0][0].ahead, other.order[1][0].ahead);
  EXPECT_EQ(
      Message(other, 1),
      "rank 1, slot F s1 m0 (next): it belongs to the next repetition, but the forward of stage 0 that it needs is not "
      "computed ahead");
  other = schedule;
  other.order[0][0].ahead = 2;
  EXPECT_THAT(Message(other, 1), HasSubstr("ahead by 2"));
  other = schedule;
  other.asynchrony->versions = {2};
  EXPECT_EQ(Message(other, 1), "weight versions of 1 ranks; expected 2");
  other.asynchrony->versions = {2, 0};
  EXPECT_EQ(Message(other, 1), "rank 1 keeps 0 weight versions; allowed: at least 1");
  other.asynchrony->microbatches_per_update = 2;
  EXPECT_EQ(Message(other, 1), "microbatches per update = 2; must divide microbatches = 1");
  // The backward precedes its own forward.
  PipelineSchedule late = Linear({{S(B, 0, 0), S(F, 0, 0)}, {S(F, 1, 0), S(B, 1, 0)}});
  late.asynchrony = Asynchrony{.versions = {1, 1}};
  EXPECT_EQ(Message(late, 1), "rank 0: B s0 m0 comes before F s0 m0, whose result it needs");
}

// Two lanes with the same stage on one rank share the stage's gradient.
TEST(CheckAccumulationOrder, LanesOnOneRank) {
  PipelineSchedule schedule = {.stages = 1, .lanes = 2, .placement = {{0}, {0}}, .order = {{}}};
  for (int m : {1, 0}) {
    for (SlotKind kind : {F, B}) {
      schedule.order[0].push_back({.kind = kind, .lane = static_cast<int16_t>(m), .stage = 0, .microbatch = m});
    }
  }
  EXPECT_EQ(CheckSchedule(schedule, 2), absl::OkStatus());
  EXPECT_THAT(std::string(CheckAccumulationOrder(schedule).message()), HasSubstr("B l0 s0 m0 comes after B l1 s0 m1"));
}

}  // namespace
}  // namespace weft
