// Training programs made from the slots of a pipeline schedule by the simplest possible rules. The model is a chain of
// matrix products with an embedding that the loss uses again. Memory is not reused, and repetitions do not overlap.
// Tests break these programs where TinyProgram lacks the feature to break.
#ifndef WEFT_VERIFIER_TESTING_SCHEDULE_PROGRAM_H_
#define WEFT_VERIFIER_TESTING_SCHEDULE_PROGRAM_H_

#include <string>
#include <utility>
#include <vector>

#include "proto/program.pb.h"

namespace weft {

struct ScheduleSpec {
  // The slots of each rank in order. A slot is F, B, I or W, the stage, '.', and the microbatch: "F0.0 F0.1 B0.0 B0.1".
  // "F0.0x2" is a forward of two microbatches. "P2.1+0.0" is a pair: the forward of stage 2, microbatch 1 and the
  // backward of stage 0, microbatch 0.
  std::vector<std::string> order;
  // placement[lane][stage] = rank.
  std::vector<std::vector<int>> placement;
  // The lane of each microbatch.
  std::vector<int> lane;
  int data = 1;
  bool tied = true;
  // Skip edges as (from, to).
  std::vector<std::pair<int, int>> skips = {};
  ComputeOrder compute_order = STATIC_ORDER;
  TransferStreams transfer_streams = PER_EDGE;
  // If true, consecutive transfers start together.
  bool group = false;
  AccumulationMode accumulation = IN_ORDER;
};

// Names of actions: "F s0 m1" (B, I, W, and P for a pair); "send F s0 m1", "recv F s1 m1", "send B s1 m1", "recv B s0
// m1" with the stage that makes or reads the tensor; "send skip0 m1", "recv dskip0 m1" and so on; then "sync", "tied",
// "norm", "norm sync", "scale", "optimizer", "loss sync".
Program ScheduleProgram(const ScheduleSpec& spec);

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_SCHEDULE_PROGRAM_H_
