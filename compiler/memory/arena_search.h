// A longer search for a low arena (compiler/memory/arena.h), for those few whose bytes are worth it: whether the items
// can lie below a given height.
//
//   height ----------        D finds no place: it takes that of C, which has been in the way the fewest times,
//   | B |     D              and C looks for another one. Each time that an item finds none its weight grows, so that
//   | A | C |                those which are hard to place are put aside more and more rarely.
#ifndef WEFT_COMPILER_MEMORY_ARENA_SEARCH_H_
#define WEFT_COMPILER_MEMORY_ARENA_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "compiler/memory/arena.h"

namespace weft {

// Offsets, one per item, with which none reaches above `height`; nothing if none were found in the steps allowed, some
// milliseconds: what is found at all is mostly found soon, so that another seed or start helps more than patience.
// `start` is where the items lie at first, disjoint while they live; those that reach above `height` look for another
// place. Items are as PlanArena has checked them. Always the same for the same arguments.
//
// The method is the ejection search of Nagata and Braysy 2009, Oper. Res. Lett. 37 (there for routes of vehicles): what
// is put aside is the set of least weight, and only places beside another item or at an end are looked at.
std::optional<std::vector<int64_t>> FitArena(absl::Span<const ArenaItem> items, int64_t height,
                                             std::vector<int64_t> start, uint32_t seed);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_ARENA_SEARCH_H_
