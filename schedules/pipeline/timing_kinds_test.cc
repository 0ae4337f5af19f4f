// Tests timing with backwards in halves, doubled forwards, pairs, message-driven and asynchronous lists, and the causes
// of idle time.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto F = SlotKind::kForward, B = SlotKind::kBackward, I = SlotKind::kBackwardInput,
               W = SlotKind::kBackwardWeight;

Slot S(SlotKind kind, int stage, int microbatch) { return {.kind = kind, .stage = stage, .microbatch = microbatch}; }

PipelineSchedule Linear(std::vector<std::vector<Slot>> order) {
  PipelineSchedule schedule = {.stages = static_cast<int>(order.size()), .placement = {{}}, .order = std::move(order)};
  for (int rank = 0; rank < schedule.stages; ++rank) schedule.placement[0].push_back(rank);
  return schedule;
}

TEST(TimeHalves, OnlyTheInputsGradientIsWaitedFor) {
  const PipelineSchedule schedule =
      Linear({{S(F, 0, 0), S(I, 0, 0), S(W, 0, 0)}, {S(F, 1, 0), S(I, 1, 0), S(W, 1, 0)}});
  const ScheduleTiming timing = *TimeSchedule(schedule, 1, {.forward = 3, .backward = 7, .weight = 2});
  EXPECT_THAT(timing.start[1], ElementsAre(3, 6, 11));
  EXPECT_THAT(timing.start[0], ElementsAre(0, 11, 16));
  EXPECT_EQ(timing.makespan, 18);
  EXPECT_EQ(timing.ranks[0].peak_activations, 1);
}

// Activations are held until the weight gradient, not until the input gradient.
TEST(TimeHalves, PeakActivations) {
  const PipelineSchedule schedule = Linear(
      {{S(F, 0, 0), S(I, 0, 0), S(F, 0, 1), S(I, 0, 1), S(W, 0, 0), S(F, 0, 2), S(I, 0, 2), S(W, 0, 1), S(W, 0, 2)}});
  EXPECT_EQ(TimeSchedule(schedule, 3, {})->ranks[0].peak_activations, 2);
}

TEST(TimeWidth, CostsPerMicrobatchAndHoldsUntilTheLast) {
  const Slot wide = {.kind = F, .stage = 0, .microbatch = 0, .width = 2};
  const PipelineSchedule schedule =
      Linear({{wide, S(B, 0, 1), S(F, 0, 2), S(B, 0, 0), S(F, 0, 3), S(B, 0, 2), S(B, 0, 3)}});
  const ScheduleTiming timing = *TimeSchedule(schedule, 4, {.forward = 3, .backward = 5});
  EXPECT_THAT(timing.start[0], ElementsAre(0, 6, 11, 14, 19, 22, 27));
  // After the backward of microbatch 1, the rank still holds the two activations of the doubled forward. With
  // microbatch 2 it holds three.
  EXPECT_EQ(timing.ranks[0].peak_activations, 3);
}

TEST(TimePairs, CostTheirOwnAndEndTogether) {
  PipelineSchedule schedule =
      Linear({{S(F, 0, 0), S(F, 0, 1), S(B, 0, 0), S(B, 0, 1)}, {S(F, 1, 0), S(F, 1, 1), S(B, 1, 0), S(B, 1, 1)}});
  schedule.order[1][1].paired = true;
  SlotCosts costs = {.forward = 2, .backward = 4, .weight = 2, .pair = 5};
  ScheduleTiming timing = *TimeSchedule(schedule, 2, costs);
  EXPECT_THAT(timing.start[1], ElementsAre(2, 4, 4, 9));
  EXPECT_THAT(timing.end[1], ElementsAre(4, 9, 9, 13));
  EXPECT_THAT(timing.start[0], ElementsAre(0, 2, 9, 13));
  EXPECT_EQ(timing.ranks[1].busy, 2 + 5 + 4);
  EXPECT_EQ(timing.ranks[1].peak_activations, 2);
  costs.pair = 0;
  timing = *TimeSchedule(schedule, 2, costs);
  EXPECT_THAT(timing.end[1], ElementsAre(4, 10, 10, 14));
}

TEST(TimeSchedule, IdleByCause) {
  const PipelineSchedule schedule = Linear({{S(F, 0, 0), S(B, 0, 0)}, {S(F, 1, 0), S(B, 1, 0)}});
  const ScheduleTiming timing = *TimeSchedule(schedule, 1, {.forward = 3, .backward = 5, .p2p = 2});
  // Rank 0 runs 0-3 and 15-20, rank 1 runs 5-13. Rank 0 waits from 3 to 13 for a gradient that is being computed (or
  // whose inputs are in flight), then 2 for its transfer.
  EXPECT_EQ(timing.makespan, 20);
  EXPECT_EQ(timing.ranks[0].warm_up, 0);
  EXPECT_EQ(timing.ranks[0].dependency, 10);
  EXPECT_EQ(timing.ranks[0].communication, 2);
  EXPECT_EQ(timing.ranks[0].tail, 0);
  EXPECT_EQ(timing.ranks[1].warm_up, 5);
  EXPECT_EQ(timing.ranks[1].dependency, 0);
  EXPECT_EQ(timing.ranks[1].tail, 7);
  // A rank without slots is in warm-up all the time.
  const PipelineSchedule half = {.stages = 1, .placement = {{0}}, .order = {{S(F, 0, 0), S(B, 0, 0)}, {}}};
  EXPECT_EQ(TimeSchedule(half, 1, {})->ranks[1].warm_up, 6);
}

// Rule ARRIVAL: at 4, the last rank could run the forward of microbatch 1, which arrived at 2. It could also run the
// backward of microbatch 0, which it has just made possible and which waits for no message.
TEST(TimeMessageDriven, SlotsThatWaitForNoMessageRunFirst) {
  PipelineSchedule schedule =
      Linear({{S(F, 0, 0), S(F, 0, 1), S(B, 0, 0), S(B, 0, 1)}, {S(F, 1, 0), S(F, 1, 1), S(B, 1, 0), S(B, 1, 1)}});
  schedule.message_driven = MessageDriven{.limit = 2};
  const SlotCosts costs = {.forward = 1, .backward = 2, .p2p = 1};
  const ScheduleTiming timing = *TimeSchedule(schedule, 2, costs);
  EXPECT_THAT(timing.start[1], ElementsAre(2, 5, 3, 6));
  EXPECT_THAT(timing.start[0], ElementsAre(0, 1, 6, 9));
  const PipelineSchedule frozen = *FreezeSchedule(schedule, 2, costs);
  EXPECT_EQ(frozen.order[1], (std::vector<Slot>{S(F, 1, 0), S(B, 1, 0), S(F, 1, 1), S(B, 1, 1)}));
  EXPECT_EQ(FreezeSchedule(frozen, 2, costs)->order, frozen.order);
}

// The limit admits microbatches by their place in the order, whatever their numbers are.
TEST(TimeMessageDriven, NamesOfMicrobatchesDoNotMatter) {
  for (const std::vector<int>& names : {std::vector<int>{0, 2, 1, 3}, {3, 2, 1, 0}}) {
    for (int limit : {1, 2, 3}) {
      for (bool renamed : {false, true}) {
        PipelineSchedule schedule = Linear({{}, {}, {}});
        for (int rank = 0; rank < 3; ++rank) {
          for (SlotKind kind : {F, B}) {
            for (int m = 0; m < 4; ++m) schedule.order[rank].push_back(S(kind, rank, renamed ? names[m] : m));
          }
        }
        schedule.message_driven = MessageDriven{.rule = MessageDriven::Rule::kBackwardFirst, .limit = limit};
        const ScheduleTiming timing = *TimeSchedule(schedule, 4, {});
        // With limit 1, the microbatches run one after the other; each takes three forwards and three backwards.
        EXPECT_EQ(timing.makespan, limit == 1 ? 36 : limit == 2 ? 21 : 18) << limit << " " << renamed;
      }
    }
  }
}

// Between the halves of its backward, a microbatch still counts as in flight.
TEST(TimeMessageDriven, LimitHoldsUntilTheSecondHalfEnds) {
  PipelineSchedule schedule = Linear({{S(F, 0, 0), S(F, 0, 1), S(I, 0, 0), S(W, 0, 0), S(I, 0, 1), S(W, 0, 1)}});
  for (const auto rule : {MessageDriven::Rule::kArrival, MessageDriven::Rule::kBackwardFirst}) {
    schedule.message_driven = MessageDriven{.rule = rule, .limit = 1};
    const ScheduleTiming timing = *TimeSchedule(schedule, 2, {});
    EXPECT_THAT(timing.start[0], ElementsAre(0, 3, 1, 2, 4, 5));
    EXPECT_EQ(timing.ranks[0].peak_activations, 1);
  }
}

// At a middle rank, a forward and a backward arrive at the same moment.
TEST(TimeMessageDriven, TiesAndPriority) {
  PipelineSchedule schedule = Linear({{}, {}, {}});
  for (int rank = 0; rank < 3; ++rank) {
    for (SlotKind kind : {F, B}) {
      for (int m = 0; m < 4; ++m) schedule.order[rank].push_back(S(kind, rank, m));
    }
  }
  schedule.message_driven = MessageDriven{.limit = 4};
  // At time 4, rank 1 has run forwards 0 to 2. Forward 3 and the backward of microbatch 0 both arrive at time 4.
  const SlotCosts costs = {.forward = 1, .backward = 1, .weight = 0};
  EXPECT_EQ((*FreezeSchedule(schedule, 4, costs)).order[1][3], S(F, 1, 3));
  schedule.message_driven->rule = MessageDriven::Rule::kBackwardFirst;
  EXPECT_EQ((*FreezeSchedule(schedule, 4, costs)).order[1][3], S(B, 1, 0));
}

// Only latency limits this pipeline. One microbatch is ahead, so two are in flight, and a period is half a makespan.
TEST(TimeAsynchronous, PeriodWithLatency) {
  PipelineSchedule schedule = Linear({{S(F, 0, 0), S(B, 0, 0)}, {S(F, 1, 0), S(B, 1, 0)}});
  schedule.order[0][0].ahead = 1;
  schedule.asynchrony = Asynchrony{.versions = {2, 1}};
  const SlotCosts costs = {.forward = 1, .backward = 2, .p2p = 50};
  const ScheduleTiming timing = *TimeSchedule(schedule, 1, costs);
  // Forward, latency, forward and backward on rank 1, latency, backward.
  EXPECT_EQ(timing.makespan, 1 + 50 + 3 + 50 + 2);
  EXPECT_EQ(2 * timing.period, timing.period_repetitions * timing.makespan);
  EXPECT_EQ(timing.ranks[0].peak_activations, 2);
  EXPECT_EQ(timing.ranks[1].peak_activations, 1);
}

TEST(TimeSchedule, RefusesOtherCosts) {
  const PipelineSchedule schedule = Linear({{S(F, 0, 0), S(B, 0, 0)}});
  auto message = [&](const SlotCosts& costs) {
    return std::string(TimeSchedule(schedule, 1, costs).status().message());
  };
  EXPECT_THAT(message({.backward = 2, .weight = 3}), HasSubstr("weight = 3; allowed: 0 to 2"));
  EXPECT_THAT(message({.pair = -1}), HasSubstr("pair = -1"));
  EXPECT_THAT(message({.pair = INT64_MAX}), HasSubstr("pair = "));
}

}  // namespace
}  // namespace weft
