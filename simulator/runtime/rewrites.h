// The changes that AsRunBy makes to a program, all for costing only. The source file of each change describes what
// frameworks do and cites where that is documented. Internal to this folder.
#ifndef WEFT_SIMULATOR_RUNTIME_REWRITES_H_
#define WEFT_SIMULATOR_RUNTIME_REWRITES_H_

#include <cstdint>
#include <utility>

#include "proto/program.pb.h"

namespace weft::sim {

// The place of a value, whatever its index: operand and offset.
using ValueRange = std::pair<int32_t, int64_t>;
inline ValueRange RangeOf(const Segment& segment, int32_t value) {
  return {segment.values(value).operand(), segment.values(value).offset()};
}

// In bias_sums.cc: true if the program has bias gradients.
bool HasBiasSums(const Program& program);
// Moves each BIAS_GRADIENT to a place after the last product that reads the same rows. It does not move past a step
// that waits for it, touches its output, overwrites the rows, or is another BIAS_GRADIENT of them.
void SumBiasesLast(Program* program);

// In late_gathers.cc: prefetches weights only within a recomputed block.
void DelayGathers(Program* program);

// In whole_layers.cc: if a backward recomputes only the first steps of a layer (without a gap, apart from gathers of
// weights), adds the other steps. A layer is all steps of a forward whose names are equal up to the first number, e.g.
// "h.3".
void RecomputeWholeLayers(Program* program);

// In hidden_collectives.cc: the two functions sum gradients under the backward, and gather weights under the forward.
void HideGradientSums(Program* program);
void HideWeightGathers(Program* program);

// In staged_sums.cc: takes the sums of gradients in the body of each template through host memory.
void StageGradientSums(Program* program);

// In split_collectives.cc: makes collectives gather and scatter every tensor by itself.
void SplitCollectives(Program* program);

// In gate_sums.cc: the gradient of a gated unit's input is the sum of two products, one for the gradient of each half.
// The ranks of the layer sum this gradient. This function replaces every such sum by two sums, one after the other,
// because the result of each product is as large as their sum.
void TakeGateSumsApart(Program* program);

// In tensor_pieces.cc: cuts collectives beside products into pieces. Does nothing if `pieces` is below 2.
void CutTensorCollectives(int pieces, Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_REWRITES_H_
