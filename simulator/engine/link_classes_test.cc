#include "simulator/engine/link_classes.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Flow OnePhase(int64_t bytes, LinkClasses::Loads loads, int64_t latency = 0) {
  return {.phases = {{.fixed_ps = 5, .bytes = bytes, .loads = std::move(loads)}}, .latency = {latency}};
}

// Eight users each have a link of their own, 0 to 7, and share one core, link 8.
LinkClasses Star(int64_t core = 1000) {
  std::vector<int64_t> capacities(8, 100);
  capacities.push_back(core);
  LinkClasses links(capacities, 8);
  for (int32_t user = 0; user < 8; ++user) links.Add(user, /*key=*/64, OnePhase(64, {{user, 1}, {8, 2}}));
  return links;
}

TEST(LinkClasses, SharedLinksCountForAllMembers) {
  for (const int64_t core : {1000, 100}) {
    LinkClasses links = Star(core);
    const std::vector<int32_t> classes(8, 0);
    // If the core has the same capacity as the other links, only its load distinguishes it.
    EXPECT_EQ(links.Refine(classes), core == 100);
    EXPECT_FALSE(links.Refine(classes));
    ASSERT_TRUE(links.Fold(classes));
    EXPECT_THAT(links.FoldedCapacities(), ElementsAre(100, core));
    const auto flows = links.FoldedFlows(3, classes);
    ASSERT_EQ(flows.size(), 1u);
    EXPECT_EQ(flows[0].first, 64);
    EXPECT_EQ(flows[0].second.phases[0].fixed_ps, 5);
    EXPECT_THAT(flows[0].second.phases[0].loads, ElementsAre(Pair(0, 1), Pair(1, 16)));
  }
}

TEST(LinkClasses, UsersOfTwoClassesPartTheirLinks) {
  LinkClasses links = Star();
  const std::vector<int32_t> classes = {0, 0, 0, 1, 1, 1, 1, 1};
  EXPECT_TRUE(links.Refine(classes));
  EXPECT_FALSE(links.Refine(classes));
  ASSERT_TRUE(links.Fold(classes));
  EXPECT_THAT(links.FoldedCapacities(), ElementsAre(100, 100, 1000));
  EXPECT_THAT(links.FoldedFlows(0, classes)[0].second.phases[0].loads, ElementsAre(Pair(0, 1), Pair(2, 6)));
  EXPECT_THAT(links.FoldedFlows(7, classes)[0].second.phases[0].loads, ElementsAre(Pair(1, 1), Pair(2, 10)));
}

// One link is slower. Its user takes a link of another class than the other users, and the user's key shows that.
TEST(LinkClasses, UsersTellTheClassesOfTheirLinks) {
  std::vector<int64_t> capacities = {100, 50, 100};
  LinkClasses links(capacities, 3);
  for (int32_t user = 0; user < 3; ++user) links.Add(user, 1, OnePhase(8, {{user, 1}}));
  const auto described = [&](int32_t user) {
    std::vector<int64_t> key;
    links.DescribeLinks(user, &key);
    return key;
  };
  EXPECT_EQ(described(0), described(2));
  EXPECT_NE(described(0), described(1));
}

TEST(LinkClasses, FlowsAreToldBySizesTimesAndTheOrderOfTheirLoads) {
  const std::vector<int64_t> capacities = {100, 100};
  const std::vector<Flow> flows = {
      OnePhase(8, {{0, 1}}),
      OnePhase(8, {{1, 1}}),
      OnePhase(9, {{0, 1}}),
      {.phases = {}},
      OnePhase(8, {{0, 1}}, 3),
      {.phases = {{.fixed_ps = 5, .bytes = 8, .loads = {{0, 1}}}, {.fixed_ps = 5, .bytes = 8, .loads = {{1, 1}}}}},
      {.phases = {{.fixed_ps = 5, .bytes = 8, .loads = {{0, 1}}}, {.fixed_ps = 5, .bytes = 8, .loads = {{0, 1}}}}},
  };
  LinkClasses links(capacities, static_cast<int32_t>(flows.size()));
  std::vector<std::vector<int64_t>> keys(flows.size());
  for (size_t user = 0; user < flows.size(); ++user) {
    links.Add(static_cast<int32_t>(user), 1, flows[user]);
    links.DescribeFlows(static_cast<int32_t>(user), &keys[user]);
  }
  // The key does not depend on which links a flow takes.
  EXPECT_EQ(keys[0], keys[1]);
  for (size_t i = 1; i < flows.size(); ++i) {
    for (size_t j = i + 1; j < flows.size(); ++j) EXPECT_NE(keys[i], keys[j]) << i << " " << j;
  }
}

// A phase without bytes puts no load on links.
TEST(LinkClasses, WithoutBytesNoLoads) {
  LinkClasses links(std::vector<int64_t>{100, 100}, 2);
  links.Add(0, 0, OnePhase(0, {{0, 1}}));
  links.Add(1, 1, OnePhase(8, {{1, 1}}));
  links.Add(1, 2, OnePhase(8, {{0, 1}, {1, 1}}));
  const std::vector<int32_t> classes = {0, 1};
  EXPECT_TRUE(links.Refine(classes));
  ASSERT_TRUE(links.Fold(classes));
  EXPECT_TRUE(links.FoldedFlows(0, classes)[0].second.phases[0].loads.empty());
  EXPECT_EQ(links.FoldedFlows(1, classes)[1].second.phases[0].loads.size(), 2u);
}

TEST(LinkClasses, MoreThanALoadCanSay) {
  LinkClasses links(std::vector<int64_t>{100}, 2);
  for (int32_t user = 0; user < 2; ++user) links.Add(user, 1, OnePhase(8, {{0, 2'000'000'000}}));
  EXPECT_FALSE(links.Refine({0, 0}));
  EXPECT_FALSE(links.Fold({0, 0}));
  EXPECT_TRUE(links.Fold({0, 1}));
}

}  // namespace
}  // namespace weft::sim
