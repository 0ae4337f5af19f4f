#include "schedules/synthesis/uneven_cases_testing.h"

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

// Draws a number without a std distribution, because those differ between libraries.
int64_t Between(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

// Returns the time of each stage's forward, in thousandths of an average one.
std::vector<int64_t> Forwards(std::mt19937_64& random, int kind, int ranks, int stages) {
  std::vector<int64_t> forward(stages, 1000);
  switch (kind) {
    case 0:  // Equal layers; the last stage also has the vocabulary's projection and the loss.
      forward[stages - 1] += Between(random, 300, 1000);
      break;
    case 1:  // The first stage has the embedding and fewer layers, the last one the vocabulary.
      forward[0] = Between(random, 500, 850);
      forward[stages - 1] += Between(random, 150, 600);
      break;
    case 2:  // Layers that the stages do not divide: some have 4, some 5.
      for (int64_t& f : forward) f = Between(random, 0, 1) == 0 ? 1000 : 1250;
      break;
    case 3:  // Mixed kinds of layers (dense and experts, local and global attention): each stage has its own sum.
      for (int64_t& f : forward) f = Between(random, 700, 1500);
      break;
    case 4:  // Mixed devices: half of the ranks, the later ones, are an older generation.
      for (int stage = 0; stage < stages; ++stage) {
        if (stage % ranks >= ranks / 2) forward[stage] = 1400;
      }
      forward[stages - 1] += Between(random, 100, 400);
      break;
    case 5:  // One slow rank: a straggler.
      forward[Between(random, 0, stages - 1)] = Between(random, 1200, 1600);
      break;
  }
  return forward;
}

}  // namespace

std::vector<UnevenCase> UnevenCases() {
  static constexpr const char* kNames[] = {
      "vocabulary", "embedding and vocabulary", "4 or 5 layers", "mixed layers", "mixed devices", "straggler"};
  std::mt19937_64 random(20240917);
  std::vector<UnevenCase> cases;
  for (int i = 0; i < 30; ++i) {
    const int kind = i % 6;
    SynthesisProblem problem;
    problem.ranks = i / 6 % 2 == 0 ? 4 : 8;
    // Between one and four microbatches per rank, as large clusters have them.
    problem.microbatches = static_cast<int>(problem.ranks * Between(random, 1, 4));
    // One case of five has two stages per rank.
    const int per_rank = i / 6 == 4 ? 2 : 1;
    problem.p2p = Between(random, 0, 100);
    for (const int64_t forward : Forwards(random, kind, problem.ranks, problem.ranks * per_rank)) {
      // Attention has an input gradient but no weights: the input half is the larger one.
      const int64_t input = forward * Between(random, 1000, 1200) / 1000;
      const int64_t weight = forward * Between(random, 700, 1000) / 1000;
      problem.costs.push_back({forward, input + weight, input, weight});
    }
    // Every rank has the memory of 1F1B's first rank.
    problem.activations.assign(problem.costs.size(), 1);
    problem.memory_cap = problem.ranks * per_rank;
    problem.placements = KnownPlacements(problem.ranks, problem.stages(), /*replicas=*/false);
    cases.push_back({absl::StrCat(i, " ", kNames[kind]), problem});
  }
  return cases;
}

SynthesisProblem RandomSmallProblem(std::mt19937_64& random, int ranks, int microbatches) {
  SynthesisProblem problem;
  problem.ranks = static_cast<int>(Between(random, 1, ranks));
  problem.microbatches = static_cast<int>(Between(random, 1, microbatches));
  const int per_rank = problem.ranks > 1 && Between(random, 0, 3) == 0 ? 2 : 1;
  problem.p2p = Between(random, 0, 2);
  problem.split = Between(random, 0, 2) != 0;
  int64_t most = 0;
  for (int stage = 0; stage < problem.ranks * per_rank; ++stage) {
    const int64_t input = Between(random, 1, 6), weight = Between(random, 0, 6);
    problem.costs.push_back({Between(random, 1, 8), input + weight, input, weight});
    problem.activations.push_back(Between(random, 1, 3));
    most += problem.activations.back();
  }
  problem.placements = KnownPlacements(problem.ranks, problem.stages(), /*replicas=*/false);
  // A cap of `most` is enough for one microbatch wherever its stages are.
  if (Between(random, 0, 1) == 0) problem.memory_cap = most + Between(random, 0, 4);
  return problem;
}

}  // namespace weft
