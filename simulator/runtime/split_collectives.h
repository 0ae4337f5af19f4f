// A program as frameworks run it that gather and scatter every tensor by itself (ZeRO 3 of DeepSpeed).
//
// A step of weft gathers the weights of a layer at once. Of one that gathers k tensors, k steps of one tensor each are
// made, one after the other on the communicator: the same bytes, k times the latencies. What waited for the step waits
// for the last of them. The result is for costing alone.
// Source: Rajbhandari et al., SC 2021, "ZeRO-Infinity", sec. 7.1 (parameters are fetched one by one).
#ifndef WEFT_SIMULATOR_RUNTIME_SPLIT_COLLECTIVES_H_
#define WEFT_SIMULATOR_RUNTIME_SPLIT_COLLECTIVES_H_

#include "proto/program.pb.h"

namespace weft::sim {

void SplitCollectives(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_SPLIT_COLLECTIVES_H_
