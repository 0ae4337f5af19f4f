#include "tests/e2e/covering_set.h"

#include <map>
#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace weft {
namespace {

using Level = std::pair<int, int>;

std::set<std::pair<Level, Level>> PairsOf(const std::vector<Choice>& choices) {
  std::set<std::pair<Level, Level>> pairs;
  for (const Choice& choice : choices) {
    for (size_t a = 0; a < choice.size(); ++a) {
      for (size_t b = a + 1; b < choice.size(); ++b) pairs.insert({{a, choice[a]}, {b, choice[b]}});
    }
  }
  return pairs;
}

std::vector<Choice> All(const std::vector<int>& levels) {
  std::vector<Choice> all = {{}};
  for (int count : levels) {
    std::vector<Choice> longer;
    for (const Choice& choice : all) {
      for (int level = 0; level < count; ++level) {
        longer.push_back(choice);
        longer.back().push_back(level);
      }
    }
    all = std::move(longer);
  }
  return all;
}

TEST(CoveringSetTest, HasEveryPairThatSomeValidChoiceHas) {
  const std::vector<int> levels = {3, 4, 2, 3, 2};
  // Forbids some pairs directly, and some only in combination with a third factor.
  const auto valid = [](const Choice& c) {
    return !(c[0] == 1 && c[1] == 2) && !(c[2] == 1 && c[3] == 2) && c[0] + c[3] + c[4] < 5;
  };
  std::vector<Choice> possible;
  for (const Choice& choice : All(levels)) {
    if (valid(choice)) possible.push_back(choice);
  }
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<Choice> chosen = CoveringSet(levels, valid, seed);
    for (const Choice& choice : chosen) EXPECT_TRUE(valid(choice));
    EXPECT_EQ(PairsOf(chosen), PairsOf(possible)) << "seed " << seed;
    // The two largest factors need 12 choices; all combinations would be 100 and more.
    EXPECT_LE(chosen.size(), 24u);
    EXPECT_EQ(chosen, CoveringSet(levels, valid, seed));
  }
}

}  // namespace
}  // namespace weft
