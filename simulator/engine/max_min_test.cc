#include "simulator/engine/max_min.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using Loads = std::vector<std::pair<int32_t, int32_t>>;

// Applies the text of rule P12 literally, to all links and flows at once.
std::vector<int64_t> RatesByTheRule(const std::vector<int64_t>& capacities, const std::vector<Loads>& flows) {
  std::vector<int64_t> free = capacities;
  std::vector<int64_t> rates(flows.size(), 0);
  while (true) {
    // Level of each link; -1 = all its flows have a rate.
    std::vector<int64_t> levels(capacities.size(), -1);
    int64_t least = -1;
    for (size_t link = 0; link < capacities.size(); ++link) {
      int64_t sum = 0;
      for (size_t f = 0; f < flows.size(); ++f) {
        if (rates[f] > 0) continue;
        for (const auto& [l, load] : flows[f]) sum += static_cast<size_t>(l) == link ? load : 0;
      }
      if (sum == 0) continue;
      levels[link] = free[link] / sum;
      if (least < 0 || levels[link] < least) least = levels[link];
    }
    if (least < 0) return rates;
    std::vector<size_t> given;
    for (size_t f = 0; f < flows.size(); ++f) {
      const bool tight =
          std::any_of(flows[f].begin(), flows[f].end(), [&](const auto& use) { return levels[use.first] == least; });
      if (rates[f] == 0 && tight) given.push_back(f);
    }
    for (const size_t f : given) {
      rates[f] = std::max<int64_t>(least, 1);
      for (const auto& [l, load] : flows[f]) free[l] = std::max<int64_t>(0, free[l] - load * rates[f]);
    }
  }
}

struct Pattern {
  std::vector<int64_t> capacities;
  std::vector<Loads> flows;
};

// Makes random links and flows. Small capacities make roundings and rates below 1 frequent.
Pattern RandomPattern(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
  Pattern pattern;
  const int64_t links = 1 + below(12);
  const int64_t scale = std::vector<int64_t>{5, 40, 1'000'000, 50'000'000'000}[below(4)];
  for (int64_t i = 0; i < links; ++i) pattern.capacities.push_back(1 + below(scale));
  const int64_t flows = 1 + below(20);
  for (int64_t i = 0; i < flows; ++i) {
    std::map<int32_t, int32_t> loads;
    for (int64_t uses = 1 + below(4); uses > 0; --uses) loads[static_cast<int32_t>(below(links))] = 1 + below(3);
    pattern.flows.emplace_back(loads.begin(), loads.end());
  }
  return pattern;
}

TEST(MaxMin, TheExampleOfTheHeader) {
  const std::vector<int64_t> capacities = {12, 10, 3};
  const Loads a = {{0, 1}, {1, 1}}, b = {{1, 1}, {2, 1}}, c = {{0, 2}};
  MaxMin solver(capacities);
  const int32_t flows[] = {solver.Begin(a), solver.Begin(b), solver.Begin(c)};
  EXPECT_EQ(solver.Solve().size(), 3);
  EXPECT_EQ(solver.rate(flows[0]), 4);
  EXPECT_EQ(solver.rate(flows[1]), 3);
  EXPECT_EQ(solver.rate(flows[2]), 4);
  EXPECT_FALSE(solver.changed());
}

TEST(MaxMin, RatesAreAtLeastOneEvenWhereNothingIsLeft) {
  const std::vector<int64_t> capacities = {2, 9};
  const Loads one = {{0, 1}}, both = {{0, 1}, {1, 1}}, other = {{1, 1}};
  MaxMin solver(capacities);
  std::vector<int32_t> flows;
  for (const Loads* loads : {&one, &one, &both, &other}) flows.push_back(solver.Begin(*loads));
  solver.Solve();
  EXPECT_EQ(solver.rate(flows[0]), 1);
  EXPECT_EQ(solver.rate(flows[2]), 1);
  EXPECT_EQ(solver.rate(flows[3]), 8);
}

// Two links have the level 3 (10 / 3 and 7 / 2), and b is on both. If the wide link gave its level first, the narrow
// link would have 4 left for c. So the rates would depend on the numbers of the links.
TEST(MaxMin, LinksAtOneLevelGiveItAtOnce) {
  for (const bool swapped : {false, true}) {
    const std::vector<int64_t> capacities = swapped ? std::vector<int64_t>{7, 10} : std::vector<int64_t>{10, 7};
    const int32_t wide = swapped, narrow = !swapped;
    const Loads a = {{wide, 2}}, b = {{0, 1}, {1, 1}}, c = {{narrow, 1}};
    MaxMin solver(capacities);
    const int32_t flows[] = {solver.Begin(a), solver.Begin(b), solver.Begin(c)};
    solver.Solve();
    for (const int32_t flow : flows) EXPECT_EQ(solver.rate(flow), 3);
  }
}

// Folding relies on this: n copies of a pattern that share some links have the rates of one copy with n times the loads
// on the shared links, in whatever order the flows begin.
TEST(MaxMin, OneFlowStandsForManyThatAreAlike) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Pattern one = RandomPattern(seed);
    std::mt19937_64 random(seed * 31);
    const int32_t links = static_cast<int32_t>(one.capacities.size());
    const int32_t copies = 2 + static_cast<int32_t>(random() % 4);
    std::vector<bool> shared;
    for (int32_t link = 0; link < links; ++link) shared.push_back(random() % 3 == 0);
    // Link l of copy c has the number c x links + l, or l if all copies share it.
    Pattern all;
    for (int32_t copy = 0; copy < copies; ++copy) {
      all.capacities.insert(all.capacities.end(), one.capacities.begin(), one.capacities.end());
      for (const Loads& loads : one.flows) {
        Loads& own = all.flows.emplace_back();
        for (const auto& [link, load] : loads) own.push_back({shared[link] ? link : copy * links + link, load});
        std::sort(own.begin(), own.end());
      }
    }
    std::vector<Loads> together = one.flows;
    for (Loads& loads : together) {
      for (auto& [link, load] : loads) load *= shared[link] ? copies : 1;
    }
    MaxMin folded(one.capacities), full(all.capacities);
    std::vector<int32_t> representative;
    for (const Loads& loads : together) representative.push_back(folded.Begin(loads));
    std::vector<size_t> order;
    for (size_t f = 0; f < all.flows.size(); ++f) order.insert(order.begin() + random() % (f + 1), f);
    std::vector<int32_t> numbers(order.size());
    for (const size_t f : order) numbers[f] = full.Begin(all.flows[f]);
    folded.Solve();
    full.Solve();
    for (size_t f = 0; f < numbers.size(); ++f) {
      ASSERT_EQ(full.rate(numbers[f]), folded.rate(representative[f % one.flows.size()])) << "flow " << f;
    }
  }
}

TEST(MaxMin, AgreesWithTheRuleWhileFlowsComeAndGo) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Pattern pattern = RandomPattern(seed);
    std::mt19937_64 random(seed * 977);
    MaxMin solver(pattern.capacities);
    // Number of each flow of the pattern in the solver, -1 = it is not in flight.
    std::vector<int32_t> numbers(pattern.flows.size(), -1);
    std::map<int32_t, int64_t> before;
    for (int change = 0; change < 30; ++change) {
      for (int64_t at_once = 1 + static_cast<int64_t>(random() % 4); at_once > 0; --at_once) {
        int32_t& number = numbers[random() % numbers.size()];
        if (number < 0) {
          number = solver.Begin(pattern.flows[&number - numbers.data()]);
        } else {
          solver.End(number);
          before.erase(number);
          number = -1;
        }
      }
      ASSERT_TRUE(solver.changed());
      const absl::Span<const int32_t> changed = solver.Solve();
      std::vector<Loads> running;
      for (size_t f = 0; f < numbers.size(); ++f) {
        if (numbers[f] >= 0) running.push_back(pattern.flows[f]);
      }
      const std::vector<int64_t> expected = RatesByTheRule(pattern.capacities, running);
      size_t next = 0;
      for (const int32_t number : numbers) {
        if (number < 0) continue;
        const int64_t rate = solver.rate(number);
        ASSERT_EQ(rate, expected[next++]) << "change " << change;
        // A flow whose rate has changed is returned once, any other flow never.
        const bool differs = !before.count(number) || before[number] != rate;
        ASSERT_EQ(std::count(changed.begin(), changed.end(), number), differs ? 1 : 0);
        before[number] = rate;
      }
    }
  }
}

TEST(MaxMin, NoLinkCarriesMoreThanItCanAndEveryFlowHasABottleneck) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pattern pattern = RandomPattern(seed);
    // Enough capacity for every flow to have a rate above 1.
    for (int64_t& capacity : pattern.capacities) capacity += 1000;
    MaxMin solver(pattern.capacities);
    std::vector<int32_t> numbers;
    for (const Loads& loads : pattern.flows) numbers.push_back(solver.Begin(loads));
    solver.Solve();
    std::vector<int64_t> taken(pattern.capacities.size(), 0), sum(taken.size(), 0), most(taken.size(), 0);
    for (size_t f = 0; f < numbers.size(); ++f) {
      const int64_t rate = solver.rate(numbers[f]);
      for (const auto& [link, load] : pattern.flows[f]) {
        taken[link] += load * rate;
        sum[link] += load;
        most[link] = std::max(most[link], rate);
      }
    }
    for (size_t link = 0; link < taken.size(); ++link) EXPECT_LE(taken[link], pattern.capacities[link]);
    for (size_t f = 0; f < numbers.size(); ++f) {
      // Every flow has a link on which no flow has a higher rate and less than 1 byte per second is left for each
      // message.
      EXPECT_TRUE(std::any_of(pattern.flows[f].begin(), pattern.flows[f].end(),
                              [&](const auto& use) {
                                const int32_t link = use.first;
                                return solver.rate(numbers[f]) == most[link] &&
                                       pattern.capacities[link] - taken[link] < sum[link];
                              }))
          << "flow " << f;
    }
  }
}

// Returns the least rate of all flows; the flow with that rate waits longest for equal work.
int64_t Least(const Pattern& pattern, size_t flows) {
  MaxMin solver(pattern.capacities);
  std::vector<int32_t> numbers;
  for (size_t f = 0; f < flows; ++f) numbers.push_back(solver.Begin(pattern.flows[f]));
  solver.Solve();
  int64_t least = INT64_MAX;
  for (const int32_t number : numbers) least = std::min(least, solver.rate(number));
  return least;
}

TEST(MaxMin, TheLeastRateFallsWithFlowsAndRisesWithCapacities) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pattern pattern = RandomPattern(seed);
    const size_t flows = pattern.flows.size();
    for (size_t f = 1; f < flows; ++f) EXPECT_GE(Least(pattern, f), Least(pattern, f + 1));
    for (int64_t& capacity : pattern.capacities) {
      const int64_t before = Least(pattern, flows);
      capacity *= 2;
      EXPECT_LE(before, Least(pattern, flows));
    }
  }
}

}  // namespace
}  // namespace weft::sim
