// The checker must refuse wrong schedules and name the slots. properties_test.cc shows that it accepts correct ones.
#include "schedules/pipeline/check.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

PipelineSchedule Build(const char* name, int ranks, int microbatches) {
  return *(*FindSchedule(name))->build({.ranks = ranks, .microbatches = microbatches});
}

std::string Message(const PipelineSchedule& schedule, int microbatches) {
  return std::string(CheckSchedule(schedule, microbatches).message());
}

TEST(CheckSchedule, MissingSlot) {
  PipelineSchedule schedule = Build("1f1b", 2, 3);
  schedule.order[1].pop_back();
  EXPECT_EQ(Message(schedule, 3), "slot B s1 m2 is missing; expected on rank 1");
}

TEST(CheckSchedule, MissingMicrobatch) {
  EXPECT_EQ(Message(Build("gpipe", 2, 3), 4), "slot F s0 m3 is missing; expected on rank 0");
}

TEST(CheckSchedule, SlotTwice) {
  PipelineSchedule schedule = Build("gpipe", 2, 2);
  schedule.order[0].push_back(schedule.order[0][0]);
  EXPECT_EQ(Message(schedule, 2), "rank 0, slot F s0 m0: runs twice");
}

TEST(CheckSchedule, SlotOnTheWrongRank) {
  PipelineSchedule schedule = Build("gpipe", 2, 2);
  schedule.order[1].push_back(schedule.order[0].back());
  schedule.order[0].pop_back();
  EXPECT_EQ(Message(schedule, 2), "rank 1, slot B s0 m1: stage 0 is placed on rank 0");
}

TEST(CheckSchedule, IndexOutOfRange) {
  PipelineSchedule schedule = Build("gpipe", 2, 2);
  schedule.order[0][0].microbatch = 2;
  EXPECT_THAT(Message(schedule, 2), HasSubstr("microbatches are 0 to 1"));
  schedule.order[0][0] = {.stage = -1};
  EXPECT_THAT(Message(schedule, 2), HasSubstr("rank 0, slot F s-1 m0: stages are 0 to 1"));
  schedule.order[0][0] = {.lane = 1};
  EXPECT_THAT(Message(schedule, 2), HasSubstr("lanes are 0 to 0"));
}

TEST(CheckSchedule, BackwardBeforeItsForward) {
  PipelineSchedule schedule = Build("1f1b", 2, 2);
  std::swap(schedule.order[1][0], schedule.order[1][1]);
  EXPECT_EQ(Message(schedule, 2), "rank 1: B s1 m0 comes before F s1 m0, whose result it needs");
}

// Rank 0 waits for the gradient of microbatch 0 before it sends microbatch 1, and rank 1 waits for microbatch 1 first.
TEST(CheckSchedule, Deadlock) {
  PipelineSchedule schedule = Build("gpipe", 2, 2);
  std::swap(schedule.order[0][1], schedule.order[0][2]);
  EXPECT_EQ(Message(schedule, 2),
            "deadlock: B s0 m0 (rank 0) waits for B s1 m0 (rank 1) waits for F s1 m1 (rank 1) waits for F s0 m1 (rank "
            "0) waits for B s0 m0 (rank 0)");
}

TEST(CheckSchedule, SaysWhichSlotIsWrong) {
  const auto place = [](const PipelineSchedule& schedule) {
    std::optional<WrongSlot> wrong;
    EXPECT_FALSE(CheckSchedule(schedule, 2, &wrong).ok());
    return wrong ? std::pair(wrong->rank, IndexOf(*wrong, schedule)) : std::pair(-1, int64_t{-1});
  };
  const PipelineSchedule good = Build("gpipe", 2, 2);
  PipelineSchedule twice = good, missing = good, blocked = good, early = good, unplaced = good;
  twice.order[1].push_back(twice.order[1][0]);
  EXPECT_EQ(place(twice), std::pair(1, int64_t{4}));
  missing.order[1].pop_back();
  EXPECT_EQ(place(missing), std::pair(1, int64_t{-1}));
  std::swap(blocked.order[0][1], blocked.order[0][2]);
  EXPECT_EQ(place(blocked), std::pair(0, int64_t{1}));
  std::swap(early.order[1][1], early.order[1][2]);
  std::swap(early.order[1][0], early.order[1][1]);
  EXPECT_EQ(place(early), std::pair(1, int64_t{0}));
  unplaced.placement[0].pop_back();
  EXPECT_EQ(place(unplaced), std::pair(-1, int64_t{-1}));
}

TEST(CheckSchedule, BadPlacement) {
  PipelineSchedule schedule = Build("gpipe", 2, 1);
  schedule.placement[0][1] = 2;
  EXPECT_EQ(Message(schedule, 1), "placement puts stage 1 of lane 0 on rank 2; ranks are 0 to 1");
  schedule.placement[0].pop_back();
  EXPECT_EQ(Message(schedule, 1), "placement of lane 0 has 1 stages; expected 2");
  schedule.placement.clear();
  EXPECT_EQ(Message(schedule, 1), "placement has 0 lanes; expected 1");
  EXPECT_THAT(Message({}, 1), HasSubstr("each must be at least 1"));
  EXPECT_THAT(Message(Build("gpipe", 2, 1), 0), HasSubstr("microbatches = 0"));
  schedule.stages = INT32_MAX;
  EXPECT_THAT(Message(schedule, INT32_MAX), HasSubstr("slots"));
}

// Two lanes in opposite directions, one microbatch each: the smallest bidirectional pipeline.
TEST(CheckSchedule, LanesAndOpposedPlacements) {
  const auto f = SlotKind::kForward, b = SlotKind::kBackward;
  PipelineSchedule schedule = {.stages = 2,
                               .lanes = 2,
                               .placement = {{0, 1}, {1, 0}},
                               .order = {{{f, 0, 0, 0}, {f, 1, 1, 1}, {b, 1, 1, 1}, {b, 0, 0, 0}},
                                         {{f, 1, 0, 1}, {f, 0, 1, 0}, {b, 0, 1, 0}, {b, 1, 0, 1}}}};
  EXPECT_EQ(CheckSchedule(schedule, 2), absl::OkStatus());
  schedule.order[1][1].lane = 1;
  EXPECT_EQ(Message(schedule, 2), "rank 1, slot F l1 s1 m0: stage 1 is placed on rank 0");
  schedule.placement = {{0, 1}, {0, 1}};
  EXPECT_FALSE(CheckSchedule(schedule, 2).ok());
}

TEST(CheckSchedule, MicrobatchInTwoLanes) {
  PipelineSchedule schedule = Build("gpipe", 1, 1);
  schedule.lanes = 2;
  schedule.placement.push_back(schedule.placement[0]);
  schedule.order[0][1].lane = 1;
  EXPECT_EQ(Message(schedule, 1), "rank 0, slot B l1 s0 m0: microbatch 0 is in lane 0 elsewhere");
}

// After one to three random swaps a schedule is either refused or still valid. An independent run of the lists, one
// slot at a time, decides which.
TEST(CheckSchedule, AgreesWithRunningTheLists) {
  const uint32_t seed = 20240613;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const int ranks = 1 + random() % 4, microbatches = 1 + random() % 4;
    PipelineSchedule schedule = Build(random() % 2 ? "1f1b" : "gpipe", ranks, microbatches);
    std::vector<Slot>& order = schedule.order[random() % ranks];
    for (int swaps = random() % 3; swaps >= 0; --swaps) {
      std::swap(order[random() % order.size()], order[random() % order.size()]);
    }
    // Slots that are done, as (kind, stage, microbatch).
    std::set<std::tuple<SlotKind, int, int>> done;
    std::vector<size_t> at(ranks);
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < ranks; ++rank) {
        if (at[rank] == schedule.order[rank].size()) continue;
        const Slot& s = schedule.order[rank][at[rank]];
        const bool ready =
            s.kind == SlotKind::kForward
                ? s.stage == 0 || done.count({SlotKind::kForward, s.stage - 1, s.microbatch})
                : done.count({SlotKind::kForward, s.stage, s.microbatch}) &&
                      (s.stage == ranks - 1 || done.count({SlotKind::kBackward, s.stage + 1, s.microbatch}));
        if (!ready) continue;
        done.insert({s.kind, s.stage, s.microbatch});
        ++at[rank];
        moved = true;
      }
    }
    const bool runs = static_cast<int>(done.size()) == 2 * ranks * microbatches;
    const absl::Status status = CheckSchedule(schedule, microbatches);
    ASSERT_EQ(status.ok(), runs) << status;
    ++(runs ? accepted : refused);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

TEST(CheckAccumulationOrder, LastInFirstOutIsRefused) {
  PipelineSchedule schedule = Build("gpipe", 2, 2);
  std::reverse(schedule.order[1].begin() + 2, schedule.order[1].end());
  EXPECT_EQ(CheckSchedule(schedule, 2), absl::OkStatus());
  EXPECT_THAT(std::string(CheckAccumulationOrder(schedule).message()),
              HasSubstr("rank 1: B s1 m0 comes after B s1 m1"));
}

}  // namespace
}  // namespace weft
