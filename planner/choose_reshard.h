// Turns plan.zero.reshard = BY_BENEFIT into a choice that says itself which layers keep their parameters and how far
// ahead the others are gathered. Candidates are judged by their simulated steps and the arenas that they really get.
#ifndef WEFT_PLANNER_CHOOSE_RESHARD_H_
#define WEFT_PLANNER_CHOOSE_RESHARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace weft::planner {

// A layer whose parameters are gathered where they are needed.
struct GatheredLayer {
  int32_t layer = 0;
  // Pipe ranks that hold it, ascending.
  std::vector<int> ranks;
  // What each of them would hold more if it kept them.
  int64_t bytes = 0;
  // Picoseconds of a step in which computation waits for these gathers and has nothing else to do.
  int64_t exposed = 0;
};

// What a plan comes to with some choice.
struct ReshardTrial {
  double seconds = 0;
  bool fits = true;
  // By pipe rank.
  std::vector<int64_t> bytes;
  std::vector<GatheredLayer> layers;
};
using TryReshard = std::function<absl::StatusOr<ReshardTrial>(const Zero& zero)>;

struct ReshardDecision {
  Zero zero;
  // What to tell the user.
  std::string note;
};

// What is chosen simulates no slower than any candidate that was tried and fits `capacity`; of equally fast ones it is
// that with the fewest bytes on the fullest rank. If none fits, it is the one with the fewest bytes. Tried are, for 1,
// 2, 4, ... gathers ahead as long as that is faster (or for asked.prefetch alone):
// - AFTER_FORWARD and AFTER_BACKWARD, and once NEVER;
// - with at most kMostExhaustive layers every set of kept ones, so the choice is exact;
// - with more, sets that grow: of what computation still waits for, on each rank those layers that save most of it
//   within the memory left (knapsack.h), until it waits for nothing, no more fits, or kMostRounds sets were tried.
inline constexpr int kMostExhaustive = 4;
inline constexpr int kMostRounds = 6;
absl::StatusOr<ReshardDecision> ChooseReshard(const Zero& asked, int64_t capacity, const TryReshard& attempt);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_CHOOSE_RESHARD_H_
