// A longer search for a low arena (compiler/memory/arena.h), for the few arenas whose bytes are worth it. It tries to
// place all items below a given height.
//
//   height ----------        D finds no free place. It takes the place of C, which has the least weight,
//   | B |     D              and C looks for another place. Each time an item finds no free place, its weight
//   | A | C |                grows, so items that are hard to place are put aside more and more rarely.
#ifndef WEFT_COMPILER_MEMORY_ARENA_SEARCH_H_
#define WEFT_COMPILER_MEMORY_ARENA_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "compiler/memory/arena.h"

namespace weft {

// Returns one offset per item, so that no item reaches above `height`. Returns nullopt if the search finds no such
// offsets within its limit of steps (some milliseconds). A search that succeeds mostly does so soon, so another seed or
// start helps more than a longer search. `start` holds the first offsets, at which items that live together are
// disjoint. Items that reach above `height` there look for another place. The items must pass PlanArena's checks. The
// result depends only on the arguments.
//
// The method is the ejection search of Nagata and Braysy 2009, Oper. Res. Lett. 37 (there for vehicle routes). To place
// an item, the search puts aside the set of items of least weight. It considers only places directly beside another
// item or at an end of the arena.
std::optional<std::vector<int64_t>> FitArena(absl::Span<const ArenaItem> items, int64_t height,
                                             std::vector<int64_t> start, uint32_t seed);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_ARENA_SEARCH_H_
