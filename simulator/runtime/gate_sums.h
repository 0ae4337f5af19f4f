// Runtime.gate_sums_apart: two sums over ranks where weft makes one.
#ifndef WEFT_SIMULATOR_RUNTIME_GATE_SUMS_H_
#define WEFT_SIMULATOR_RUNTIME_GATE_SUMS_H_

#include "proto/program.pb.h"

namespace weft::sim {

// The gradient of a gated unit's input is the sum of what two products make of the gradients of its halves, and is
// summed over the ranks of the layer. Every such sum is made twice, one behind the other: what each product makes is as
// large.
void TakeGateSumsApart(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_GATE_SUMS_H_
