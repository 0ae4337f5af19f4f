// Programs for the simulator's tests. They have the structure that determines times, but not everything that a
// trainable program needs, so they do not pass VerifyProgram.
#ifndef WEFT_SIMULATOR_TESTING_TEST_PROGRAMS_H_
#define WEFT_SIMULATOR_TESTING_TEST_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// GPipe over `ranks` ranks of axis pipe: all forwards, then all backwards in order of microbatch, with one step each.
// Activations of `bytes` bytes are sent towards the last stage, gradients towards the first. Each microbatch keeps
// `bytes` from its forward to its backward.
Program GPipeProgram(int ranks, int microbatches, int64_t bytes);

// Appends a sum of the gradients (buffer 0) over axis data to each body of a GPipeProgram. The program must have an
// axis data.
void AddGradientSync(Program& program);

// Two ranks on axis x run one segment once. The segment has one value of 8 elements; each element of `steps` is one of
// its steps, as the text form of a Step.
Program OneSegmentProgram(const std::vector<std::string>& steps);

// A random program, free of deadlock by construction. It may have:
//   - ranks on axes pipe, data and x; prologue, body and epilogue;
//   - segments with steps on all streams, with dependencies, detached steps, and collectives over all or parts of x and
//     data;
//   - transfers in two lanes, over skip edges, in groups, on shared streams; any order of compute;
//   - collective actions over all or parts of the axes;
//   - dependencies over repetitions, also on detached steps; buffers of all classes.
Program RandomEngineProgram(uint64_t seed);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_TESTING_TEST_PROGRAMS_H_
