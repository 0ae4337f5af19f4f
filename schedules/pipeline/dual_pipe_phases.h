// The common part of DualPipe and DualPipeV. Each rank works in two directions at once. In the middle of an iteration
// it runs the forward of one direction overlapped with the backward of the other.
#ifndef WEFT_SCHEDULES_PIPELINE_DUAL_PIPE_PHASES_H_
#define WEFT_SCHEDULES_PIPELINE_DUAL_PIPE_PHASES_H_

#include <array>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// One of a rank's two stages, and the microbatches that it runs, in ascending order.
struct Direction {
  int lane = 0;
  int stage = 0;
  int first_microbatch = 0;
};

struct DualPipeRank {
  // directions[0] is the direction whose forwards reach the rank first.
  std::array<Direction, 2> directions;
  // Microbatches per direction, at least 2 * depth.
  int microbatches = 0;
  // `depth` counts the ranks from the entry of a direction to where the two directions meet. `place` is this rank's
  // place on that way, from 0.
  int depth = 1;
  int place = 0;
};

// Makes a rank's list in eight phases. d: depth, q: place, n: microbatches; f, b, i, w: slots of direction 0, upper
// case: slots of direction 1 (b is a whole backward), & an overlapped pair:
//
//     1   2(d - q - 1) times      f
//     2   q + 1 times             f F
//     3   d - q - 1 times         I W F
//     4   n - 2d + q + 1 times    f&B F&b      at the meeting place the first f B is not a pair, as F&b waits for it
//     5   d - q - 1 times         B F&b
//     6   q + 1 times             B b          the second half of these backwards are I and i instead
//     7   d - q - 1 times         w i
//     8   as many as are left     w
//
//
// Here w is the weight gradient that has waited longest, in either direction. So each stage's weight gradients, also
// those in whole backwards, are in ascending microbatch order.
std::vector<Slot> DualPipeList(const DualPipeRank& rank);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DUAL_PIPE_PHASES_H_
