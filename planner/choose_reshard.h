// Replaces plan.zero.reshard = BY_BENEFIT by a choice that states which layers keep their parameters and how far ahead
// the parameters of the others are gathered. Each candidate is compiled and simulated; its time and its arenas decide.
#ifndef WEFT_PLANNER_CHOOSE_RESHARD_H_
#define WEFT_PLANNER_CHOOSE_RESHARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace weft::planner {

// A layer whose parameters are gathered before each use instead of being kept.
struct GatheredLayer {
  int32_t layer = 0;
  // Pipe ranks that hold the layer, ascending.
  std::vector<int> ranks;
  // Bytes that each of these ranks would hold in addition if it kept the layer's parameters.
  int64_t bytes = 0;
  // Exposed picoseconds of the layer's gathers in a step: the time during which they run and nothing is computed.
  int64_t exposed = 0;
};

// The simulated time and the memory of a plan with one choice of plan.zero.
struct ReshardTrial {
  double seconds = 0;
  bool fits = true;
  // Indexed by pipe rank.
  std::vector<int64_t> bytes;
  std::vector<GatheredLayer> layers;
};
using TryReshard = std::function<absl::StatusOr<ReshardTrial>(const Zero& zero)>;

struct ReshardDecision {
  Zero zero;
  // The message for the user.
  std::string note;
};

// Chooses a candidate that fits `capacity` and simulates no slower than any other tried candidate that fits. Among
// equally fast candidates it takes the one with the fewest bytes on the fullest rank. If no candidate fits, it also
// takes the one with the fewest bytes. It tries these candidates, for 1, 2, 4, ... gathers ahead as long as the step
// gets faster (or for asked.prefetch alone): - AFTER_FORWARD and AFTER_BACKWARD, and once NEVER; - with at most
// kMaxExhaustive layers, every set of kept layers, so the choice is exact; - with more layers, sets that grow: each
// rank keeps the layers that save the most waiting time within the memory left
//   (knapsack.h). The sets grow until computation waits for no gather, no layer fits, or kMaxRounds sets were tried.
inline constexpr int kMaxExhaustive = 4;
inline constexpr int kMaxRounds = 6;
absl::StatusOr<ReshardDecision> ChooseReshard(const Zero& asked, int64_t capacity, const TryReshard& attempt);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_CHOOSE_RESHARD_H_
