// The slot table that Chimera, Chimera-wave and Hanayo share. In equal slots of time, the j-th microbatch of a lane
// runs
//
//   forward of stage s in slot   2j + s
//   backward of stage s in slot  2j + S + (S - 1 - s)        (S stages)
//
// so that on each rank the two directions of travel take the even and the odd slots. A table says only in which order a
// rank does things; when it does them follows from what they cost.
#ifndef WEFT_SCHEDULES_PIPELINE_WAVE_TABLE_H_
#define WEFT_SCHEDULES_PIPELINE_WAVE_TABLE_H_

#include <cstdint>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// How one unit of the table, after which it repeats, is filled. A rank's forwards of a unit take S slots, and so do the
// backwards of as many microbatches.
enum class WaveUnit : uint8_t {
  // `per_lane` microbatches of each lane; units begin 2S slots apart.
  kSingle,
  // 2 * per_lane microbatches of each lane: two in each forward slot, one in each backward slot, of which there are two
  // rounds; units begin 3S slots apart. The two run as one forward of width 2 ...
  kDoubled,
  // ... or as two forwards.
  kPairs,
};

struct WaveTable {
  int ranks = 1;
  // placement[lane][stage] = rank. No two lanes put a slot of the table on the same rank.
  std::vector<std::vector<int>> placement;
  int per_lane = 1;
  WaveUnit unit = WaveUnit::kSingle;
  // Of kDoubled: so many pairs of each lane's first unit run as two forwards.
  int undoubled = 0;
};

// The lists of all ranks. Units take microbatches in ascending order, and so do the lanes of a unit, each an equal
// share: of a unit that is not full, the first lanes one more. As long as not more microbatches are left than make a
// single unit, units are single.
std::vector<std::vector<Slot>> WaveOrder(const WaveTable& table, int microbatches);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_WAVE_TABLE_H_
