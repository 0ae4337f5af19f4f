// The slot table that Chimera, Chimera-wave and Hanayo share. In equal slots of time, the j-th microbatch of a lane
// runs
//
//   forward of stage s in slot   2j + s
//   backward of stage s in slot  2j + S + (S - 1 - s)        (S stages)
//
// so that on each rank the two directions of travel take the even and the odd slots. A table only gives the order in
// which a rank runs its slots. Their times follow from their costs.
#ifndef WEFT_SCHEDULES_PIPELINE_WAVE_TABLE_H_
#define WEFT_SCHEDULES_PIPELINE_WAVE_TABLE_H_

#include <cstdint>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// How one unit of the table is filled. The table consists of such units, one after the other. A rank's forwards of a
// unit take S slots, and so do the backwards of the same number of microbatches.
enum class WaveUnit : uint8_t {
  // `per_lane` microbatches of each lane; units begin 2S slots apart.
  kSingle,
  // 2 * per_lane microbatches of each lane, two in each forward slot. Backwards take two rounds, with one microbatch in
  // each backward slot. Units begin 3S slots apart. The two microbatches run as one forward of width 2.
  kDoubled,
  // Like kDoubled, but the two microbatches run as two forwards.
  kPairs,
};

struct WaveTable {
  int ranks = 1;
  // placement[lane][stage] = rank. No two lanes may use the same slot of the table on the same rank.
  std::vector<std::vector<int>> placement;
  int per_lane = 1;
  WaveUnit unit = WaveUnit::kSingle;
  // For kDoubled: number of pairs of each lane's first unit that run as two forwards.
  int undoubled = 0;
};

// Makes the lists of all ranks. Units take microbatches in ascending order. Within a unit, each lane takes an equal
// share, also in ascending order; in a partly filled unit, the first lanes take one more. If the remaining microbatches
// fit into a kSingle unit, the unit is kSingle.
std::vector<std::vector<Slot>> WaveOrder(const WaveTable& table, int microbatches);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_WAVE_TABLE_H_
