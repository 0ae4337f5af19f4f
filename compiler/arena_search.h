// A longer search for a low arena (compiler/arena.h), for those few whose bytes are worth it: it looks for an order of
// the large items in which first fit leaves no gap that none of them can use, and puts the small ones between them.
#ifndef WEFT_COMPILER_ARENA_SEARCH_H_
#define WEFT_COMPILER_ARENA_SEARCH_H_

#include <cstdint>

#include "absl/types/span.h"
#include "compiler/arena.h"

namespace weft {

// The lowest arena that is found; its height is at most `enough`, or all the time is used up: some tenths of a second.
// `lower_bound` is the most bytes live at one time. Items are as PlanArena has checked them.
//
// Large items, of 1/32 of the bound at least, are placed by first fit in an order that changes by one move at a time.
// What is made small is not the height but the sum of what reaches above the bytes that large items need at one time:
// it falls with every item that finds a lower place, where the height falls with the last one only. Worse orders are
// accepted up to a threshold that falls to zero (Dueck and Scheuer 1990, J. Comput. Phys. 90, threshold accepting).
// Small items follow where they fit, in two orders. Always the same for the same items.
Arena SearchArena(absl::Span<const ArenaItem> items, int64_t lower_bound, int64_t enough);

}  // namespace weft

#endif  // WEFT_COMPILER_ARENA_SEARCH_H_
