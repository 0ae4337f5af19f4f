// Tests the properties that every algorithm of the registry must have.
#include <algorithm>
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

// The algorithms that send messages between members.
std::vector<CollectiveEntry> MessageCollectives() {
  std::vector<CollectiveEntry> entries;
  for (const CollectiveEntry& entry : Collectives()) {
    if (!entry.in_switch()) entries.push_back(entry);
  }
  return entries;
}

// All small group sizes, and some larger ones with many or few divisors.
constexpr int kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 24, 32, 33};

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
  EXPECT_THAT(std::string(status.message()), HasSubstr("unknown collective 'rings'; nearest: 'ring'; known: direct, "));
}

TEST(Collectives, EveryPlanIsWhatItSays) {
  for (const CollectiveEntry& entry : MessageCollectives()) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const int members : kSizes) {
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

// Rule P10. An all-reduce may have fewer chunks than a reduce-scatter, so its chunks may be longer.
TEST(Collectives, AReduceScatterSumsInTheOrderOfTheAllReduce) {
  for (const CollectiveEntry& entry : MessageCollectives()) {
    if (entry.all_reduce_only) continue;
    for (const int members : {2, 3, 4, 5, 6, 7, 8, 9, 12, 16}) {
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

TEST(Collectives, AllReduceOnlyAlgorithmsGatherByRing) {
  for (const CollectiveEntry& entry : Collectives()) {
    if (!entry.all_reduce_only) continue;
    const CollectiveEntry& ring = **FindCollective("ring");
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
      EXPECT_EQ(entry.Build(5, kind)->rounds, ring.Build(5, kind)->rounds) << entry.name;
      EXPECT_EQ(entry.Traffic(5, kind).stages, ring.Traffic(5, kind).stages) << entry.name;
    }
  }
}

TEST(Collectives, OneMemberSendsNothing) {
  for (const CollectiveEntry& entry : Collectives()) {
    EXPECT_TRUE(entry.Build(1)->rounds.empty()) << entry.name;
    EXPECT_TRUE(entry.Traffic(1).stages.empty()) << entry.name;
  }
}

TEST(Collectives, ImpossibleSizesAreRefused) {
  for (const CollectiveEntry& entry : Collectives()) {
    for (int64_t members : {int64_t{0}, int64_t{-1}, int64_t{kMaxPlanMembers} + 1, INT64_MAX, INT64_MIN}) {
      EXPECT_EQ(entry.Build(members).status().code(), absl::StatusCode::kInvalidArgument) << entry.name << members;
    }
  }
}

// The messages of a round, in the form of CollectiveStage::exchanges.
std::vector<CollectiveExchange> Exchanges(const std::vector<CollectiveStep>& round) {
  std::map<std::pair<int, int>, int> messages;
  for (const CollectiveStep& step : round) ++messages[{step.source, step.destination}];
  std::vector<CollectiveExchange> exchanges;
  for (const auto& [ends, count] : messages) exchanges.push_back({ends.first, ends.second, count});
  return exchanges;
}

TEST(Collectives, TrafficIsThatOfThePlan) {
  for (const CollectiveEntry& entry : MessageCollectives()) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const int members : kSizes) {
        SCOPED_TRACE(testing::Message() << entry.name << ", " << CollectiveKindName(kind) << " over " << members);
        const CollectivePlan plan = *entry.Build(members, kind);
        const CollectiveTraffic traffic = entry.Traffic(members, kind);
        EXPECT_EQ(traffic.chunks, plan.chunks);
        size_t round = 0;
        for (const CollectiveStage& stage : traffic.stages) {
          std::vector<CollectiveExchange> expected = StageExchanges(stage, members);
          ASSERT_GT(stage.rounds, 0);
          int64_t messages = 0;
          for (const CollectiveExchange& exchange : expected) messages += exchange.messages;
          EXPECT_EQ(StageMessages(stage, members), messages);
          std::sort(expected.begin(), expected.end(), [](const CollectiveExchange& a, const CollectiveExchange& b) {
            return std::pair(a.source, a.destination) < std::pair(b.source, b.destination);
          });
          for (int64_t i = 0; i < stage.rounds; ++i) {
            ASSERT_LT(round, plan.rounds.size());
            EXPECT_EQ(Exchanges(plan.rounds[round++]), expected);
          }
        }
        EXPECT_EQ(round, plan.rounds.size());
      }
    }
  }
}

TEST(Collectives, InASwitchEveryByteGoesUpOnceAndDownOnce) {
  for (const CollectiveEntry& entry : Collectives()) {
    if (!entry.in_switch()) continue;
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const int members : kSizes) {
        if (members == 1) continue;
        const CollectiveTraffic traffic = entry.Traffic(members, kind);
        ASSERT_EQ(traffic.stages.size(), 1u);
        const CollectiveStage& stage = traffic.stages[0];
        EXPECT_EQ(stage.rounds, 1);
        EXPECT_TRUE(StageExchanges(stage, members).empty());
        EXPECT_EQ(StageMessages(stage, members), members * stage.sent);
        // `others`: in a reduce-scatter or all-gather, the number of the other members' chunks. An all-reduce has one
        // chunk, the whole buffer.
        const int64_t all = traffic.chunks, others = kind == CollectiveKind::kAllReduce ? 1 : members - 1;
        EXPECT_EQ(stage.sent, kind == CollectiveKind::kAllGather ? 1 : others);
        EXPECT_EQ(stage.received, kind == CollectiveKind::kReduceScatter ? 1 : others);
        EXPECT_EQ(all, kind == CollectiveKind::kAllReduce ? 1 : members);
      }
    }
  }
}

TEST(Collectives, SwitchCollectivesHaveNoRounds) {
  const absl::Status status = (*FindCollective("switch"))->Build(4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("collective 'switch' is done by switches of the network"));
}

TEST(ChunkBegin, CutsEveryLengthWithoutGapOrOverlap) {
  for (int64_t elements : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{64}, int64_t{1000003}, INT64_MAX}) {
    for (int chunks : {1, 2, 3, 7, kMaxPlanMembers}) {
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
