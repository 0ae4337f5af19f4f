// A lower bound on the size of an arena, with which tests compare the size that was planned.
#ifndef WEFT_COMPILER_MEMORY_ARENA_TESTING_H_
#define WEFT_COMPILER_MEMORY_ARENA_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compiler/memory/arena.h"
#include "proto/util/units.h"

namespace weft {

// Bytes of the items that live at the fullest moment. No arena can be lower.
inline int64_t LargestLiveSum(const std::vector<ArenaItem>& items) {
  int64_t most = 0;
  for (const ArenaItem& at : items) {
    int64_t live = 0;
    for (const ArenaItem& item : items) {
      if (item.first <= at.first && at.first <= item.last) live += RoundUp(item.bytes, kArenaAlignment);
    }
    most = std::max(most, live);
  }
  return most;
}

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_ARENA_TESTING_H_
