// Programs for the simulator's tests. They have the structure that times follow from, not all that a trainable program
// needs, so they do not pass VerifyProgram.
#ifndef WEFT_SIMULATOR_TESTING_TEST_PROGRAMS_H_
#define WEFT_SIMULATOR_TESTING_TEST_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// GPipe over `ranks` ranks of axis pipe: all forwards, then all backwards in order of microbatch; one step each.
// Activations of `bytes` bytes go up, gradients down. Each microbatch keeps `bytes` from its forward to its backward.
Program GPipeProgram(int ranks, int microbatches, int64_t bytes);

// Behind the last action of each body of such a program, which must have an axis data: the gradients, buffer 0, are
// summed over it.
void AddGradientSync(Program& program);

// Ranks on axes x of two, one segment that has one value of 8 elements, run once; steps are text of Step.
Program OneSegmentProgram(const std::vector<std::string>& steps);

// Ranks on axes pipe, data and x; prologue, body and epilogue; segments with steps on all streams, collectives over all
// or a part of x and data among them, dependencies and detached steps; transfers in two lanes, by skip edges, in
// groups, on shared streams; any order of compute; collective actions over all or a part of the axes; dependencies over
// repetitions, on detached steps too; buffers of all classes. Free of deadlock by construction.
Program RandomEngineProgram(uint64_t seed);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_TESTING_TEST_PROGRAMS_H_
