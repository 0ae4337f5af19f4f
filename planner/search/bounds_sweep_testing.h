// Compares the bounds of random plans with simulations of these plans.
#ifndef WEFT_PLANNER_SEARCH_BOUNDS_SWEEP_TESTING_H_
#define WEFT_PLANNER_SEARCH_BOUNDS_SWEEP_TESTING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::planner {

struct SweepOptions {
  uint64_t seed = 1;
  // The sweep ends after the problem in which it has compiled this many candidates.
  int64_t candidates = 1000;
  // Candidates that are compiled for each problem, drawn from its space.
  int64_t per_problem = 24;
  // The number of the first problem. A problem depends on the seed and its own number only.
  int64_t first_problem = 0;
  // Only models and sequences of usual sizes, on clusters as the catalog has them, and only settings that are searched.
  // Estimates are closer then: a tiny model mostly waits for messages, which bounds and estimates count as hidden.
  bool usual = false;
  // Also reports every candidate in `lines`.
  bool verbose = false;
};

struct SweepResult {
  int64_t problems = 0;
  // Problems that are refused as a whole.
  int64_t refused_problems = 0;
  // Plans that are refused without a bound.
  int64_t refused_bounds = 0;
  // Plans that were compiled. Each is in one of the next three.
  int64_t candidates = 0;
  int64_t simulated = 0;
  int64_t unfit = 0;
  int64_t refused = 0;
  // One text for each bound that is too high, with the command that repeats it.
  std::vector<std::string> violations;
  // For each simulated candidate: |estimate / simulated - 1|, and 1 - bound / simulated.
  std::vector<double> estimate_errors;
  std::vector<double> bound_gaps;
  // 1 - bound / planned, of the bytes of the fullest rank of each candidate that weft's own executor runs.
  std::vector<double> memory_gaps;
  // Spearman's rank correlation of estimates and simulations, for each problem with eight simulated candidates or more.
  std::vector<double> spearman;
  // The beginnings of reasons, with their numbers.
  std::map<std::string, int64_t> refusals;
  std::vector<std::string> lines;
};

SweepResult SweepBounds(const SweepOptions& options);

// The value at `share` (0 to 1) of the sorted values; 0 for no values.
double Quantile(std::vector<double> values, double share);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_BOUNDS_SWEEP_TESTING_H_
