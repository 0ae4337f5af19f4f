#include "compiler/graph/balanced_partition.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "gtest/gtest.h"

namespace weft {
namespace {

// Costs of the stages of a cut, descending, as the header describes them.
std::vector<int64_t> SortedCosts(const std::vector<int64_t>& costs, const RecomputeCosts& recompute,
                                 const std::vector<int32_t>& counts) {
  std::vector<int64_t> stages;
  size_t layer = 0;
  for (int32_t count : counts) {
    int64_t cost = 0;
    int position = 0;
    for (const size_t end = layer + count; layer < end; ++layer) {
      cost += costs[layer];
      if (recompute.layers.empty() || recompute.layers[layer] < 0) continue;
      if (position++ % recompute.every == 0) cost += recompute.layers[layer];
    }
    stages.push_back(cost);
  }
  std::sort(stages.begin(), stages.end(), std::greater<>());
  return stages;
}

// Tries every cut in lexicographic order of counts. If several cuts are equally good, the first one wins.
void BruteForce(const std::vector<int64_t>& costs, const RecomputeCosts& recompute, size_t from, int stages,
                std::vector<int32_t>* counts, std::vector<int32_t>* best) {
  if (stages == 1) {
    counts->push_back(static_cast<int32_t>(costs.size() - from));
    if (best->empty() || SortedCosts(costs, recompute, *counts) < SortedCosts(costs, recompute, *best)) *best = *counts;
    counts->pop_back();
    return;
  }
  for (size_t count = 1; from + count + stages - 1 <= costs.size(); ++count) {
    counts->push_back(static_cast<int32_t>(count));
    BruteForce(costs, recompute, from + count, stages - 1, counts, best);
    counts->pop_back();
  }
}

TEST(BalancedPartition, EqualsBruteForce) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> costs(1 + random() % 9);
    // Few distinct costs make ties.
    for (int64_t& cost : costs) cost = random() % 6;
    RecomputeCosts recompute;
    if (round % 3 > 0) {
      for (size_t i = 0; i < costs.size(); ++i) recompute.layers.push_back(static_cast<int64_t>(random() % 5) - 1);
      recompute.every = 1 + random() % 4;
    }
    for (int stages = 1; stages <= static_cast<int>(costs.size()); ++stages) {
      std::vector<int32_t> counts, best;
      BruteForce(costs, recompute, 0, stages, &counts, &best);
      auto found = BalancedPartition(costs, stages, recompute);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, best) << testing::PrintToString(costs) << " and " << testing::PrintToString(recompute.layers)
                              << " every " << recompute.every << " in " << stages;
    }
  }
}

// Costs of the stages of a cut, descending, as the header describes them for several kinds of devices.
std::vector<int64_t> SortedMixedCosts(const MixedStages& mixed, const std::vector<int32_t>& counts) {
  std::vector<int64_t> stages;
  int64_t from = 0;
  for (size_t stage = 0; stage < counts.size(); ++stage) {
    int64_t slowest = 0;
    for (const int32_t kind : mixed.kinds_of_stage[stage]) {
      const std::vector<int64_t>& costs = mixed.kinds[kind].layers;
      RecomputeCosts recompute = mixed.kinds[kind].recompute;
      if (!recompute.layers.empty()) {
        recompute.layers = {recompute.layers.begin() + from, recompute.layers.begin() + from + counts[stage]};
      }
      const std::vector<int64_t> own(costs.begin() + from, costs.begin() + from + counts[stage]);
      slowest = std::max(slowest, SortedCosts(own, recompute, {counts[stage]})[0]);
    }
    stages.push_back(slowest);
    from += counts[stage];
  }
  std::sort(stages.begin(), stages.end(), std::greater<>());
  return stages;
}

// Calls `visit` for every cut of `layers` layers, in lexicographic order of counts.
void ForEachCut(int layers, int stages, std::vector<int32_t>* counts, const std::function<void()>& visit) {
  for (int count = stages == 1 ? layers : 1; count + stages - 1 <= layers; ++count) {
    counts->push_back(count);
    if (stages == 1) visit();
    if (stages > 1) ForEachCut(layers - count, stages - 1, counts, visit);
    counts->pop_back();
  }
}

TEST(MixedPartition, EqualsBruteForce) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 400; ++round) {
    const int layers = 1 + random() % 9;
    MixedStages mixed;
    mixed.kinds.resize(1 + random() % 3);
    for (KindCosts& kind : mixed.kinds) {
      for (int i = 0; i < layers; ++i) kind.layers.push_back(random() % 6);
      if (round % 3 == 0) continue;
      for (int i = 0; i < layers; ++i) kind.recompute.layers.push_back(static_cast<int64_t>(random() % 5) - 1);
      kind.recompute.every = 1 + random() % 3;
    }
    std::vector<int64_t> bytes(layers);
    for (int64_t& layer : bytes) layer = random() % 4;
    for (int stages = 1; stages <= layers; ++stages) {
      mixed.kinds_of_stage.assign(stages, {});
      std::vector<int64_t> room;
      for (std::vector<int32_t>& kinds : mixed.kinds_of_stage) {
        for (int i = 0; i < 1 + static_cast<int>(random() % 2); ++i) kinds.push_back(random() % mixed.kinds.size());
        room.push_back(1 + random() % 12);
      }
      mixed.holds = [&](int32_t stage, int64_t from, int64_t to) {
        return std::accumulate(bytes.begin() + from, bytes.begin() + to, int64_t{0}) <= room[stage];
      };
      std::vector<int32_t> counts, best, best_held;
      ForEachCut(layers, stages, &counts, [&] {
        bool held = true;
        int64_t from = 0;
        for (size_t stage = 0; stage < counts.size(); from += counts[stage++]) {
          held &= mixed.holds(static_cast<int32_t>(stage), from, from + counts[stage]);
        }
        for (std::vector<int32_t>* of : {&best, &best_held}) {
          if (of == &best_held && !held) continue;
          if (of->empty() || SortedMixedCosts(mixed, counts) < SortedMixedCosts(mixed, *of)) *of = counts;
        }
      });
      const auto limited = MixedPartition(mixed);
      ASSERT_TRUE(limited.ok()) << limited.status();
      EXPECT_EQ(*limited, best_held.empty() ? best : best_held) << round << " in " << stages;
      mixed.holds = nullptr;
      const auto found = MixedPartition(mixed);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, best) << round << " in " << stages;
    }
  }
}

// The search for the maximum alone, which serves large models, on a problem with a known answer: a device of the second
// kind takes a quarter of the time, so it gets four times the layers.
TEST(MixedPartition, ManyLayersFollowTheSpeedOfTheirDevices) {
  MixedStages mixed{.kinds = {{std::vector<int64_t>(5000, 4)}, {std::vector<int64_t>(5000, 1)}}, .kinds_of_stage = {}};
  for (int stage = 0; stage < 200; ++stage) mixed.kinds_of_stage.push_back({stage % 2});
  const auto found = MixedPartition(mixed);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 200);
  for (size_t stage = 0; stage < 200; ++stage) EXPECT_EQ((*found)[stage], stage % 2 == 0 ? 10 : 40) << stage;
  // A stage with devices of both kinds waits for the slow ones.
  mixed.kinds_of_stage.assign(200, {0, 1});
  EXPECT_EQ(*MixedPartition(mixed), std::vector<int32_t>(200, 25));
  // The fast devices hold at most 20 layers, so the slow ones get 30.
  for (int stage = 0; stage < 200; ++stage) mixed.kinds_of_stage[stage] = {stage % 2};
  mixed.holds = [](int32_t stage, int64_t from, int64_t to) { return stage % 2 == 0 || to - from <= 20; };
  const std::vector<int32_t> limited = *MixedPartition(mixed);
  for (size_t stage = 0; stage < 200; ++stage) EXPECT_EQ(limited[stage], stage % 2 == 0 ? 30 : 20) << stage;
}

TEST(MixedPartition, EqualKindsAreCutAsOneKind) {
  std::mt19937 random(3);
  // The large model takes the search for the maximum alone.
  for (const int layers : {12, 400}) {
    std::vector<int64_t> costs(layers);
    for (int64_t& cost : costs) cost = 1 + random() % 1000;
    const int stages = layers / 4;
    const KindCosts kind{costs, {std::vector<int64_t>(layers, 300), 2}};
    MixedStages mixed{.kinds = {kind, kind}, .kinds_of_stage = {}};
    for (int stage = 0; stage < stages; ++stage) mixed.kinds_of_stage.push_back({stage % 2, 0});
    EXPECT_EQ(*MixedPartition(mixed), *BalancedPartition(costs, stages, kind.recompute));
  }
}

TEST(MixedPartition, SaysWhatIsWrong) {
  EXPECT_EQ(MixedPartition({.kinds = {{{1, 2}}, {{1}}}, .kinds_of_stage = {{0}}}).status().message(),
            "one kind of device has costs of 2 layers, another of 1");
  EXPECT_EQ(MixedPartition({.kinds = {{{1, 2}}}, .kinds_of_stage = {{0}, {1}}}).status().message(),
            "stage 1 has no kind of device, or one without costs");
  EXPECT_EQ(MixedPartition({.kinds = {{{1, 2}}}, .kinds_of_stage = {{}, {0}}}).status().message(),
            "stage 0 has no kind of device, or one without costs");
  EXPECT_EQ(MixedPartition({}).status().message(), "there is no stage");
}

TEST(BalancedPartition, OtherStagesAreAsCheapAsTheyCanBe) {
  // The stage with the layer of cost 10 decides the maximum. The other layers are cut in the middle.
  EXPECT_EQ(*BalancedPartition({1, 1, 1, 1, 1, 1, 10}, 3), (std::vector<int32_t>{3, 3, 1}));
}

TEST(BalancedPartition, ManyLayersAreCutQuickly) {
  const std::vector<int64_t> costs(5000, 3);
  auto found = BalancedPartition(costs, 500, {std::vector<int64_t>(5000, 2), 2});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, std::vector<int32_t>(500, 10));
}

TEST(BalancedPartition, EqualLayersGoToTheEnd) {
  auto found = BalancedPartition(std::vector<int64_t>(6, 5), 4);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, (std::vector<int32_t>{1, 1, 2, 2}));
}

TEST(BalancedPartition, HugeCostsSaturate) {
  auto found = BalancedPartition(std::vector<int64_t>(4, int64_t{1} << 62), 2);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->size(), 2);
  EXPECT_TRUE(BalancedPartition({INT64_MAX, INT64_MAX}, 2).ok());
  EXPECT_TRUE(BalancedPartition({INT64_MAX, INT64_MAX}, 1, {{INT64_MAX, INT64_MAX}, INT32_MAX}).ok());
}

TEST(BalancedPartition, SaysWhatIsWrong) {
  EXPECT_EQ(BalancedPartition({1, 2}, 3).status().message(),
            "cannot cut 2 layers into 3 stages of at least one layer; at most 2 stages");
  EXPECT_EQ(BalancedPartition({1, 2}, 0).status().message(), "stages = 0; it must be at least 1");
  EXPECT_EQ(BalancedPartition({1, -2}, 1).status().message(), "cost of layer 1 is -2");
  EXPECT_EQ(BalancedPartition({1, 2}, 1, {{1}, 1}).status().message(),
            "1 costs of recompute are given for 2 layers; allowed: one per layer");
}

}  // namespace
}  // namespace weft
