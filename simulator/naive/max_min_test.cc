#include "simulator/naive/max_min.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::sim::naive {
namespace {

using ::testing::ElementsAre;

TEST(MaxMin, AloneAFlowHasItsNarrowestLink) {
  EXPECT_THAT(MaxMinRates({100, 60}, {{{0, 1}, {1, 1}}}), ElementsAre(60));
  EXPECT_THAT(MaxMinRates({100, 60}, {{{0, 4}, {1, 1}}}), ElementsAre(25));
}

TEST(MaxMin, RatesAreRoundedDownAndAtLeastOne) {
  EXPECT_THAT(MaxMinRates({10}, {{{0, 1}}, {{0, 1}}, {{0, 1}}}), ElementsAre(3, 3, 3));
  EXPECT_THAT(MaxMinRates({2}, {{{0, 1}}, {{0, 1}}, {{0, 1}}}), ElementsAre(1, 1, 1));
}

// The "parking lot" example: one long flow over three links, and one short flow on each link. The link of 30 is the
// tightest and gives 15 to each of its two flows. Then 90 - 15 and 60 - 15 are left for the other short flows.
TEST(MaxMin, SharesWhatTheTightestLinkLeaves) {
  EXPECT_THAT(MaxMinRates({90, 30, 60}, {{{0, 1}, {1, 1}, {2, 1}}, {{0, 1}}, {{1, 1}}, {{2, 1}}}),
              ElementsAre(15, 75, 15, 45));
}

// A flow with three messages on a link takes three times its rate from that link.
TEST(MaxMin, LoadsWeigh) { EXPECT_THAT(MaxMinRates({100}, {{{0, 3}}, {{0, 1}}}), ElementsAre(25, 25)); }

TEST(MaxMin, AFlowWithoutLinksHasNoRate) { EXPECT_THAT(MaxMinRates({100}, {{}, {{0, 1}}}), ElementsAre(0, 100)); }

// Max-min fairness, apart from rounding: every flow has a full link on which no other flow has a higher rate.
TEST(MaxMin, EveryFlowHasABottleneck) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const int links = 1 + static_cast<int>(random() % 6);
    std::vector<int64_t> capacities;
    for (int link = 0; link < links; ++link)
      capacities.push_back(1000000 + static_cast<int64_t>(random() % 1000000000));
    std::vector<std::map<int, int64_t>> flows(1 + random() % 8);
    for (auto& flow : flows) {
      for (int link = 0; link < links; ++link) {
        if (random() % 2 == 0) flow[link] = 1 + static_cast<int64_t>(random() % 4);
      }
      if (flow.empty()) flow[static_cast<int>(random() % links)] = 1;
    }
    const std::vector<int64_t> rates = MaxMinRates(capacities, flows);
    std::vector<int64_t> used(links, 0), slack(links, 0), most(links, 0);
    for (size_t f = 0; f < flows.size(); ++f) {
      for (const auto& [link, load] : flows[f]) {
        used[link] += load * rates[f];
        // Rates are rounded down, which leaves less than 1 unused on a link for each message of its flows.
        slack[link] += load;
        most[link] = std::max(most[link], rates[f]);
      }
    }
    for (int link = 0; link < links; ++link) EXPECT_LE(used[link], capacities[link]);
    for (size_t f = 0; f < flows.size(); ++f) {
      bool bottleneck = false;
      for (const auto& [link, load] : flows[f]) {
        bottleneck |= used[link] + slack[link] > capacities[link] && rates[f] == most[link];
      }
      EXPECT_TRUE(bottleneck) << "flow " << f;
    }
  }
}

}  // namespace
}  // namespace weft::sim::naive
