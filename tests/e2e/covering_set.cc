#include "tests/e2e/covering_set.h"

#include <random>
#include <set>
#include <tuple>

namespace weft {
namespace {

// (factor, level, factor, level); the factor with the lower index is first.
using Pair = std::tuple<int, int, int, int>;

std::set<Pair> PairsOf(const Choice& choice) {
  std::set<Pair> pairs;
  const int factors = static_cast<int>(choice.size());
  for (int a = 0; a < factors; ++a) {
    for (int b = a + 1; b < factors; ++b) pairs.emplace(a, choice[a], b, choice[b]);
  }
  return pairs;
}

}  // namespace

std::vector<Choice> CoveringSet(const std::vector<int>& levels, const std::function<bool(const Choice&)>& valid,
                                uint32_t seed) {
  constexpr int kTries = 20000, kCandidates = 40;
  std::mt19937 random(seed);
  const int factors = static_cast<int>(levels.size());
  std::set<Pair> open;
  for (int a = 0; a < factors; ++a) {
    for (int b = a + 1; b < factors; ++b) {
      for (int i = 0; i < levels[a]; ++i) {
        for (int j = 0; j < levels[b]; ++j) open.emplace(a, i, b, j);
      }
    }
  }
  std::vector<Choice> chosen;
  while (!open.empty()) {
    const auto [a, i, b, j] = *open.begin();
    // Find some valid choices with this pair, and take the one that covers the most pairs that are still open.
    Choice best;
    int most = 0, candidates = 0;
    for (int n = 0; n < kTries && candidates < kCandidates; ++n) {
      Choice choice(factors);
      for (int f = 0; f < factors; ++f) choice[f] = static_cast<int>(random() % levels[f]);
      choice[a] = i;
      choice[b] = j;
      if (!valid(choice)) continue;
      ++candidates;
      int covers = 0;
      for (const Pair& pair : PairsOf(choice)) covers += open.count(pair);
      if (covers <= most) continue;
      most = covers;
      best = choice;
    }
    open.erase(open.begin());
    if (best.empty()) continue;
    for (const Pair& pair : PairsOf(best)) open.erase(pair);
    chosen.push_back(best);
  }
  return chosen;
}

}  // namespace weft
