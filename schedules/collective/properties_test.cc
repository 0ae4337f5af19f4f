// What must hold for every algorithm of the registry.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/collective/check.h"
#include "schedules/collective/plan.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(Collectives, SortedByNameWithSource) {
  ASSERT_FALSE(Collectives().empty());
  for (size_t i = 0; i < Collectives().size(); ++i) {
    EXPECT_FALSE(Collectives()[i].source.empty()) << Collectives()[i].name;
    if (i > 0) {
      EXPECT_LT(Collectives()[i - 1].name, Collectives()[i].name);
    }
  }
}

TEST(Collectives, UnknownNameListsKnownAndNearest) {
  const absl::Status status = FindCollective("rings").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("unknown collective 'rings'; nearest: 'ring'; known: direct, ring"));
}

TEST(Collectives, EveryPlanIsWhatItSays) {
  for (const CollectiveEntry& entry : Collectives()) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (int members = 1; members <= 9; ++members) {
        const absl::StatusOr<CollectivePlan> plan = entry.Build(members, kind);
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_EQ(plan->members, members);
        EXPECT_EQ(plan->kind, kind);
        EXPECT_EQ(CheckCollective(*plan), absl::OkStatus())
            << entry.name << ", " << CollectiveKindName(kind) << " over " << members;
      }
    }
  }
}

// Rule P10. Chunks of a reduce-scatter are ranges of members; an element's chunk in the all-reduce may be longer.
TEST(Collectives, AReduceScatterSumsInTheOrderOfTheAllReduce) {
  for (const CollectiveEntry& entry : Collectives()) {
    for (int members = 2; members <= 9; ++members) {
      const CollectivePlan all = *entry.Build(members);
      const CollectivePlan scatter = *entry.Build(members, CollectiveKind::kReduceScatter);
      for (int member = 0; member < members; ++member) {
        const int chunk = member * all.chunks / members;
        EXPECT_EQ(SumOrder(scatter, member, member), SumOrder(all, 0, chunk))
            << entry.name << " over " << members << ", member " << member;
      }
    }
  }
}

TEST(Collectives, OneMemberSendsNothing) {
  for (const CollectiveEntry& entry : Collectives()) {
    EXPECT_TRUE(entry.Build(1)->rounds.empty()) << entry.name;
    EXPECT_EQ(entry.Traffic(1).rounds, 0) << entry.name;
  }
}

TEST(Collectives, ImpossibleSizesAreRefused) {
  for (const CollectiveEntry& entry : Collectives()) {
    for (int64_t members : {int64_t{0}, int64_t{-1}, int64_t{kMaximumPlanMembers} + 1, INT64_MAX, INT64_MIN}) {
      EXPECT_EQ(entry.Build(members).status().code(), absl::StatusCode::kInvalidArgument) << entry.name << members;
    }
  }
}

TEST(Collectives, TrafficIsThatOfThePlan) {
  for (const CollectiveEntry& entry : Collectives()) {
    for (int i = 0; i < 27; ++i) {
      const int members = 1 + i % 9;
      const CollectiveKind kind = kCollectiveKinds[i / 9];
      SCOPED_TRACE(testing::Message() << entry.name << ", " << CollectiveKindName(kind) << " over " << members);
      const CollectivePlan plan = *entry.Build(members, kind);
      const CollectiveTraffic traffic = entry.Traffic(members, kind);
      EXPECT_EQ(traffic.rounds, plan.rounds.size());
      EXPECT_EQ(traffic.chunks, plan.chunks);
      for (const std::vector<CollectiveStep>& round : plan.rounds) {
        std::map<int, int64_t> sent, received;
        for (const CollectiveStep& step : round) {
          ++sent[step.source];
          ++received[step.destination];
        }
        for (int member = 0; member < members; ++member) {
          EXPECT_EQ(sent[member], traffic.messages);
          EXPECT_EQ(received[member], traffic.messages);
        }
      }
    }
  }
}

TEST(ChunkBegin, CutsEveryLengthWithoutGapOrOverlap) {
  for (int64_t elements : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{64}, int64_t{1000003}, INT64_MAX}) {
    for (int chunks : {1, 2, 3, 7, kMaximumPlanMembers}) {
      EXPECT_EQ(ChunkBegin(elements, chunks, 0), 0);
      EXPECT_EQ(ChunkBegin(elements, chunks, chunks), elements);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int64_t length = ChunkBegin(elements, chunks, chunk + 1) - ChunkBegin(elements, chunks, chunk);
        EXPECT_GE(length, elements / chunks);
        EXPECT_LE(length - elements / chunks, 1);
      }
    }
  }
}

}  // namespace
}  // namespace weft
