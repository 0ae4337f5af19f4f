#include "planner/choose_recompute.h"

#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace weft::planner {
namespace {

// A model whose ranks have `layers` layers of `bytes` bytes each. A recomputed layer keeps one byte.
struct Model {
  std::vector<int> layers;
  int64_t bytes = 10;
  int64_t fixed = 100;
  int calls = 0;

  PlanArenas Plan() {
    return [this](const Recompute& recompute) -> absl::StatusOr<PlannedArenas> {
      ++calls;
      const std::set<int32_t> listed(recompute.layers().begin(), recompute.layers().end());
      PlannedArenas arenas;
      int32_t next = 0;
      for (int count : layers) {
        arenas.layers.emplace_back();
        int64_t sum = fixed;
        for (int i = 0; i < count; ++i, ++next) {
          arenas.layers.back().push_back(next);
          if (recompute.mode() == Recompute::INTERVAL) {
            sum += i % recompute.interval() == 0;
          } else {
            sum += listed.count(next) > 0 ? 1 : bytes;
          }
        }
        // The layers of an interval are recomputed together, so they take memory at the same time.
        if (recompute.mode() == Recompute::INTERVAL) sum += bytes * std::min(count, recompute.interval());
        arenas.bytes.push_back(sum);
      }
      return arenas;
    };
  }
};

TEST(ChooseFit, RecomputesNoMoreThanMustBe) {
  for (int64_t capacity = 90; capacity <= 200; ++capacity) {
    Model model{{8, 5, 3, 0}};
    const auto decision = ChooseFit(model.Plan(), capacity);
    ASSERT_TRUE(decision.ok());
    // By hand: rank r needs the fewest c with fixed + 10 (n - c) + c <= capacity.
    std::vector<int32_t> expected;
    int32_t first = 0;
    for (int count : model.layers) {
      int c = 0;
      while (c < count && 100 + 10 * (count - c) + c > capacity) ++c;
      for (int i = 0; i < c; ++i) expected.push_back(first + i);
      first += count;
    }
    EXPECT_EQ(std::vector<int32_t>(decision->recompute.layers().begin(), decision->recompute.layers().end()), expected)
        << capacity;
    EXPECT_EQ(decision->recompute.mode(), expected.empty() ? Recompute::NONE : Recompute::LAYERS);
    EXPECT_LE(model.calls, 7);
  }
}

// 64 layers take at least 164. If the capacity is smaller by more than an eighth, two compilations show it.
TEST(ChooseFit, DoesNotSearchWhereNothingFits) {
  const auto calls = [](int64_t capacity, std::vector<int> layers) {
    Model model{std::move(layers)};
    const auto decision = ChooseFit(model.Plan(), capacity);
    EXPECT_TRUE(decision.ok()) << decision.status();
    EXPECT_EQ(decision->recompute.layers_size(), 64) << capacity;
    return model.calls;
  };
  EXPECT_EQ(calls(100, {64}), 2);
  EXPECT_EQ(calls(145, {64}), 2);
  EXPECT_GT(calls(146, {64}), 6);
  // One rank is hopeless, but the search goes on for the other ranks.
  Model model{{64, 20}};
  const auto decision = ChooseFit(model.Plan(), 140);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_NE(decision->note.find("64/64, 18/20"), std::string::npos) << decision->note;
}

TEST(ChooseInterval, FindsTheLowest) {
  // Each group keeps an input of 1 byte and needs 10 bytes per layer of the group. With 64 layers, groups of 2 (32 +
  // 20) and groups of 3 (22 + 30) take the same, and the smaller interval wins.
  Model model{{64, 10}};
  const auto decision = ChooseInterval(model.Plan());
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->recompute.interval(), 2);
  EXPECT_EQ(model.calls, 64);
  EXPECT_NE(decision->note.find("152"), std::string::npos) << decision->note;
}

TEST(ChooseFit, PassesErrorsOn) {
  const PlanArenas broken = [](const Recompute&) { return absl::InvalidArgumentError("no such plan"); };
  EXPECT_EQ(ChooseFit(broken, 1).status().message(), "no such plan");
  EXPECT_EQ(ChooseInterval(broken).status().message(), "no such plan");
}

}  // namespace
}  // namespace weft::planner
