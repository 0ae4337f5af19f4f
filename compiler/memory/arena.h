// Packs buffers with known lifetimes into one arena. The height is the smallest that a few greedy orders, and changes
// of them, find.
//
//   time  0 1 2 3 4 5            offset
//   A     ######                 A: 0        B cannot share with A or C (they are live together),
//   B         ######             B: |A|      C takes A's bytes again.
//   C           ######           C: 0
//
// Two items overlap in time when neither ends before the other begins: [first, last] are inclusive. Items that overlap
// in time get disjoint bytes. The height is at least the largest sum of sizes live at one time (`lower_bound`).
//
// If the best greedy order is more than 1 % above `lower_bound`, each order is changed step by step: an item that ends
// highest is placed earlier.
//
// Time: O(n^2) for up to kExactItems items, including the changes. For more items, only the order by first use is
// tried, in O(n * live).
//
// Source: the greedy orders are from Pisarchyk and Lee 2020, arXiv:2001.03288, sec. 4 (by size, by breadth) and first
// fit by start, which is optimal for items of one size.
#ifndef WEFT_COMPILER_MEMORY_ARENA_H_
#define WEFT_COMPILER_MEMORY_ARENA_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weft {

// Offsets and heights are multiples of this.
inline constexpr int64_t kArenaAlignment = 256;

struct ArenaItem {
  int64_t bytes = 0;
  // The first and the last moment of the item's life, first <= last.
  int64_t first = 0;
  int64_t last = 0;
};

struct Arena {
  // One offset per item, in the order of the items.
  std::vector<int64_t> offsets;
  int64_t height = 0;
  int64_t lower_bound = 0;
};

// Returns the same offsets whenever it gets the same items. InvalidArgument if an item has negative bytes or ends
// before it begins; ResourceExhausted if the sum of all bytes exceeds 2^62.
absl::StatusOr<Arena> PlanArena(absl::Span<const ArenaItem> items);

// Plans the arena of a rank that also holds `beside` >= 0 bytes outside the arena all the time. If the height exceeds
// the lower bound by more than 1 MiB and by more than 1/1024 of all these bytes, a longer search follows
// (arena_search.h). The search may not reach this goal.
absl::StatusOr<Arena> PlanArenaOfRank(absl::Span<const ArenaItem> items, int64_t beside);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_ARENA_H_
