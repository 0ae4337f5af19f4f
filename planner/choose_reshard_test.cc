#include "planner/choose_reshard.h"

#include <algorithm>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace weft::planner {
namespace {

// A pipeline with `layers` layers on each rank. The gather of a layer takes `gather`. The computation of the layer
// before hides `hidden` of this time, or twice that with two gathers ahead; the hidden part costs nothing. The first
// gather of a rank is fully exposed.
struct Model {
  std::vector<int> layers;
  int64_t bytes = 10;
  int64_t fixed = 100;
  int64_t gather = 7;
  int64_t hidden = 4;
  int64_t compute = 100;
  int64_t capacity = 0;
  // Bytes that the arena takes for each kept layer beyond the layer's own bytes.
  int64_t surprise = 0;
  std::vector<std::pair<Zero, ReshardTrial>> tried = {};

  ReshardTrial TrialOf(const Zero& zero) const {
    const std::set<int32_t> kept(zero.kept_layers().begin(), zero.kept_layers().end());
    ReshardTrial trial;
    int32_t next = 0;
    int64_t slowest = 0;
    for (size_t rank = 0; rank < layers.size(); ++rank) {
      int64_t sum = fixed + zero.prefetch() * bytes / 10, time = compute;
      bool first = true;
      for (int i = 0; i < layers[rank]; ++i, ++next) {
        if (zero.reshard() == Zero::NEVER || kept.count(next) > 0) {
          sum += bytes + surprise;
          continue;
        }
        if (zero.reshard() == Zero::AFTER_BACKWARD) sum += 2 * bytes;
        const int64_t under = first && i == 0 ? 0 : hidden * zero.prefetch();
        first = false;
        GatheredLayer layer{next, {static_cast<int>(rank)}, bytes, std::max<int64_t>(0, gather - under)};
        if (zero.reshard() == Zero::AFTER_BACKWARD) layer.exposed /= 2;
        time += layer.exposed;
        trial.layers.push_back(layer);
      }
      slowest = std::max(slowest, time);
      trial.bytes.push_back(sum);
      trial.fits = trial.fits && sum <= capacity;
    }
    trial.seconds = static_cast<double>(slowest);
    return trial;
  }

  TryReshard Attempt() {
    return [this](const Zero& zero) -> absl::StatusOr<ReshardTrial> {
      tried.emplace_back(zero, TrialOf(zero));
      return tried.back().second;
    };
  }
};

Zero ByBenefit() {
  Zero zero;
  zero.set_stage(3);
  zero.set_group(2);
  zero.set_reshard(Zero::BY_BENEFIT);
  return zero;
}

Zero Forced(Zero::Reshard reshard, int32_t prefetch) {
  Zero zero = ByBenefit();
  zero.set_reshard(reshard);
  zero.set_prefetch(prefetch);
  return zero;
}

TEST(ChooseReshard, IsNeverSlowerThanAForcedChoiceThatFits) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    Model model;
    const int ranks = 1 + static_cast<int>(random() % 3);
    for (int r = 0; r < ranks; ++r) model.layers.push_back(1 + static_cast<int>(random() % 8));
    model.gather = static_cast<int64_t>(random() % 20);
    model.hidden = static_cast<int64_t>(random() % 12);
    model.capacity = 95 + static_cast<int64_t>(random() % 90);
    model.surprise = static_cast<int64_t>(random() % 3);
    const auto decision = ChooseReshard(ByBenefit(), model.capacity, model.Attempt());
    ASSERT_TRUE(decision.ok()) << decision.status();
    const ReshardTrial chosen = model.TrialOf(decision->zero);
    EXPECT_NE(decision->zero.reshard(), Zero::BY_BENEFIT);
    EXPECT_EQ(decision->zero.stage(), 3);
    EXPECT_EQ(decision->zero.group(), 2);
    bool any = false;
    for (const Zero::Reshard reshard : {Zero::AFTER_FORWARD, Zero::AFTER_BACKWARD, Zero::NEVER}) {
      const ReshardTrial forced = model.TrialOf(Forced(reshard, 1));
      if (!forced.fits) continue;
      any = true;
      EXPECT_LE(chosen.seconds, forced.seconds) << "seed 5, case " << i << ": " << decision->note;
    }
    EXPECT_TRUE(chosen.fits || !any) << "seed 5, case " << i << ": " << decision->note;
  }
}

// With few layers, all sets are tried.
TEST(ChooseReshard, IsExactForFewLayers) {
  for (const std::vector<int>& layers : {std::vector<int>{4}, {2, 2}, {1, 3}}) {
    for (int64_t capacity = 100; capacity <= 150; capacity += 5) {
      Model model{layers};
      model.capacity = capacity;
      Zero asked = ByBenefit();
      asked.set_prefetch(1);
      const auto decision = ChooseReshard(asked, capacity, model.Attempt());
      ASSERT_TRUE(decision.ok());
      double best = 1e9;
      for (uint32_t bits = 0; bits < 16; ++bits) {
        Zero zero = Forced(Zero::LAYERS, 1);
        for (int32_t layer = 0; layer < 4; ++layer) {
          if (bits >> layer & 1) zero.add_kept_layers(layer);
        }
        const ReshardTrial trial = model.TrialOf(zero);
        if (trial.fits) best = std::min(best, trial.seconds);
      }
      EXPECT_LE(model.TrialOf(decision->zero).seconds, best) << decision->note;
      EXPECT_EQ(decision->zero.prefetch(), 1);
    }
  }
}

TEST(ChooseReshard, KeepsWhatFitsOnEachRank) {
  Model model{{8, 5}};
  model.hidden = 0;
  model.capacity = 141;
  Zero asked = ByBenefit();
  asked.set_prefetch(0);
  const auto decision = ChooseReshard(asked, model.capacity, model.Attempt());
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->zero.reshard(), Zero::LAYERS);
  // Each rank keeps four layers of ten bytes.
  EXPECT_EQ(decision->zero.kept_layers_size(), 8);
  EXPECT_TRUE(model.TrialOf(decision->zero).fits);
  EXPECT_NE(decision->note.find("parameters of 8 of 13 layers are kept"), std::string::npos) << decision->note;
  EXPECT_NE(decision->note.find("all kept 100 s (does not fit)"), std::string::npos) << decision->note;
}

// If an arena is larger than the bytes of its layers suggest, the next set gets less memory.
TEST(ChooseReshard, LearnsFromAnArenaThatDoesNotFit) {
  Model model{{10}};
  model.capacity = 145;
  model.surprise = 2;
  Zero asked = ByBenefit();
  asked.set_prefetch(1);
  const auto decision = ChooseReshard(asked, model.capacity, model.Attempt());
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->zero.kept_layers_size(), 3) << decision->note;
}

TEST(ChooseReshard, GathersFurtherAheadWhileThatPays) {
  Model model{{9}};
  model.gather = 14;
  model.hidden = 4;
  model.capacity = 105;
  const auto decision = ChooseReshard(ByBenefit(), model.capacity, model.Attempt());
  ASSERT_TRUE(decision.ok());
  // Two gathers ahead hide 8 of the 14 units of time that a gather takes; four hide all 14.
  EXPECT_EQ(decision->zero.prefetch(), 4);
  EXPECT_EQ(decision->zero.reshard(), Zero::AFTER_FORWARD);
  for (const auto& [zero, trial] : model.tried) EXPECT_LE(zero.prefetch(), 8);
}

TEST(ChooseReshard, TakesTheFewestBytesIfNothingFits) {
  Model model{{6}};
  model.capacity = 50;
  const auto decision = ChooseReshard(ByBenefit(), model.capacity, model.Attempt());
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->zero.reshard(), Zero::AFTER_FORWARD);
  EXPECT_EQ(decision->zero.prefetch(), 1);
}

// If computation waits for no gather, keeping parameters gains nothing.
TEST(ChooseReshard, KeepsNothingInVain) {
  Model model{{7}};
  model.gather = 0;
  model.capacity = 1000;
  const auto decision = ChooseReshard(ByBenefit(), model.capacity, model.Attempt());
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->zero.reshard(), Zero::AFTER_FORWARD);
  EXPECT_LE(model.tried.size(), 5u);
}

}  // namespace
}  // namespace weft::planner
