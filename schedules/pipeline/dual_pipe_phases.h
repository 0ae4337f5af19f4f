// What DualPipe and DualPipeV share: each rank works in two directions at once, and in the middle of a step runs the
// forward of one direction overlapped with the backward of the other.
#ifndef WEFT_SCHEDULES_PIPELINE_DUAL_PIPE_PHASES_H_
#define WEFT_SCHEDULES_PIPELINE_DUAL_PIPE_PHASES_H_

#include <array>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// One of a rank's two stages, and which microbatches it runs, ascending.
struct Direction {
  int lane = 0;
  int stage = 0;
  int first_microbatch = 0;
};

struct DualPipeRank {
  // [0] is the one whose forwards reach the rank first.
  std::array<Direction, 2> directions;
  // Microbatches per direction, at least 2 * depth.
  int microbatches = 0;
  // Ranks from where a direction comes in to where the two meet, and the place of this rank on that way, from 0.
  int depth = 1;
  int place = 0;
};

// Its list in eight phases. d: depth, q: place, n: microbatches; f, b, i, w: of direction 0, upper case: of direction 1
// (b whole backwards), & an overlapped pair:
//
//     1   2(d - q - 1) times      f
//     2   q + 1 times             f F
//     3   d - q - 1 times         I W F
//     4   n - 2d + q + 1 times    f&B F&b      at the meeting place the first f B is no pair: F&b waits for it
//     5   d - q - 1 times         B F&b
//     6   q + 1 times             B b          from the middle on I and i instead
//     7   d - q - 1 times         w i
//     8   as many as are left     w
//
// where w is the weight gradient that waits longest, of either direction. So each stage's weight gradients, those in
// whole backwards too, are in ascending microbatch order.
std::vector<Slot> DualPipeList(const DualPipeRank& rank);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DUAL_PIPE_PHASES_H_
