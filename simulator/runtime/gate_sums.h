// Runtime.gate_sums_apart: the framework makes two sums over ranks where weft makes one.
#ifndef WEFT_SIMULATOR_RUNTIME_GATE_SUMS_H_
#define WEFT_SIMULATOR_RUNTIME_GATE_SUMS_H_

#include "proto/program.pb.h"

namespace weft::sim {

// The gradient of a gated unit's input is the sum of two products, one for the gradient of each half. The ranks of the
// layer sum this gradient. This function makes every such sum twice, one behind the other, because the result of each
// product is as large as their sum.
void TakeGateSumsApart(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_GATE_SUMS_H_
