// The checker must refuse plans that are not all-reduces. properties_test.cc shows that it accepts the registered
// algorithms.
#include "schedules/collective/check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr CollectiveOp kCopy = CollectiveOp::kCopy;
constexpr CollectiveOp kReduce = CollectiveOp::kReduce;

CollectivePlan Ring3() { return *(*FindCollective("ring"))->Build(3); }

std::string Message(const CollectivePlan& plan) { return std::string(CheckCollective(plan).message()); }

TEST(CheckCollective, MissingRound) {
  CollectivePlan plan = Ring3();
  plan.rounds.pop_back();
  EXPECT_THAT(Message(plan), HasSubstr("0 times in chunk"));
}

TEST(CheckCollective, ContributionTwice) {
  CollectivePlan plan = Ring3();
  plan.rounds.back()[0].op = kReduce;
  EXPECT_THAT(Message(plan), HasSubstr("2 times in chunk 1; expected once"));
}

TEST(CheckCollective, WrongChunk) {
  CollectivePlan plan = Ring3();
  plan.rounds[0][0].chunk = 0;
  EXPECT_FALSE(CheckCollective(plan).ok());
}

// Every member gets every term once, but (0+1)+2 and 1+(0+2) round differently.
TEST(CheckCollective, DifferentOrders) {
  CollectivePlan plan = {
      .members = 3,
      .chunks = 1,
      .rounds = {{{1, 0, 0, kReduce}, {2, 0, 0, kReduce}, {0, 2, 0, kReduce}}, {{2, 1, 0, kReduce}, {0, 2, 0, kCopy}}}};
  EXPECT_EQ(Message(plan), "members 0 and 1 sum chunk 0 in different orders: ((0+1)+2) and (1+(0+2))");
  plan.rounds[1] = {{0, 1, 0, kCopy}, {0, 2, 0, kCopy}};
  EXPECT_EQ(CheckCollective(plan), absl::OkStatus());
}

TEST(CheckCollective, AllGather) {
  CollectivePlan plan = *(*FindCollective("ring"))->Build(3, CollectiveKind::kAllGather);
  CollectivePlan shorter = plan;
  shorter.rounds.pop_back();
  EXPECT_THAT(Message(shorter), HasSubstr("member 2 does not end with chunk 0 of member 0"));
  std::swap(plan.rounds[0], plan.rounds[1]);
  EXPECT_THAT(Message(plan), HasSubstr("does not have that chunk yet"));
  plan.rounds.clear();
  plan.chunks = 4;
  EXPECT_THAT(Message(plan), HasSubstr("chunks = 4; it must be one for each of 3 members"));
}

TEST(CheckCollective, ReduceScatter) {
  CollectivePlan plan = *(*FindCollective("ring"))->Build(3, CollectiveKind::kReduceScatter);
  EXPECT_EQ(SumOrder(plan, 0, 0), "(0+(1+2))");
  plan.rounds.pop_back();
  EXPECT_THAT(Message(plan), HasSubstr("0 times in chunk 0"));
}

TEST(CheckCollective, MalformedSteps) {
  EXPECT_THAT(Message({.members = 2, .chunks = 1, .rounds = {{{0, 2, 0, kCopy}}}}), HasSubstr("members are 0 to 1"));
  EXPECT_THAT(Message({.members = 2, .chunks = 1, .rounds = {{{-1, 1, 0, kCopy}}}}), HasSubstr("members are 0 to 1"));
  EXPECT_THAT(Message({.members = 2, .chunks = 1, .rounds = {{{1, 1, 0, kCopy}}}}), HasSubstr("sends to itself"));
  EXPECT_THAT(Message({.members = 2, .chunks = 1, .rounds = {{{0, 1, 1, kCopy}}}}), HasSubstr("chunks are 0 to 0"));
  EXPECT_THAT(Message({.members = 3, .chunks = 1, .rounds = {{{0, 1, 0, kCopy}, {2, 1, 0, kReduce}}}}),
              HasSubstr("round 0, chunk 0 from member 2 to member 1: a copy must be all"));
  EXPECT_THAT(Message({.members = 2, .chunks = 1, .rounds = {{{0, 1, 0, kReduce}, {0, 1, 0, kReduce}}}}),
              HasSubstr("none twice"));
  EXPECT_FALSE(CheckCollective({.members = 0, .chunks = 1, .rounds = {}}).ok());
  EXPECT_FALSE(CheckCollective({.members = 1, .chunks = 0, .rounds = {}}).ok());
}

}  // namespace
}  // namespace weft
