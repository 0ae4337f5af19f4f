// A program as run by frameworks that gather and scatter every tensor by itself (ZeRO 3 of DeepSpeed).
//
// A step of weft gathers all weights of a layer at once. Here a step that gathers k tensors becomes k steps of one
// tensor each, one after the other on the communicator. They move the same bytes with k times the latencies. Steps that
// waited for the original step wait for the last of the new steps. The result is for costing only. Source: Rajbhandari
// et al., SC 2021, "ZeRO-Infinity", sec. 7.1 (parameters are fetched one by one).
#ifndef WEFT_SIMULATOR_RUNTIME_SPLIT_COLLECTIVES_H_
#define WEFT_SIMULATOR_RUNTIME_SPLIT_COLLECTIVES_H_

#include "proto/program.pb.h"

namespace weft::sim {

void SplitCollectives(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_SPLIT_COLLECTIVES_H_
