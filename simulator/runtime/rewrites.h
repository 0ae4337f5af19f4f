// The changes that AsRunBy makes to a program. Each is for costing only. Its source says what frameworks do and where
// that is written. Internal to this folder.
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

// bias_sums.cc. True if the program has bias gradients.
bool HasBiasSums(const Program& program);
// Moves each BIAS_GRADIENT behind the last product that reads the same rows. It does not pass a step that waits for it,
// touches its output or overwrites the rows.
void SumBiasesLast(Program* program);

// late_gathers.cc. Prefetches weights only within a recomputed block.
void DelayGathers(Program* program);

// whole_layers.cc. Completes layers whose first steps, without a gap and not counting gathers of weights, are computed
// again. A layer is the steps of a forward whose names are equal up to the first number, e.g. "h.3".
void RecomputeWholeLayers(Program* program);

// hidden_collectives.cc. Sums gradients under the backward, and gathers weights under the forward.
void HideGradientSums(Program* program);
void HideWeightGathers(Program* program);

// staged_sums.cc. Takes the sums of gradients in the body of each template through host memory.
void StageGradientSums(Program* program);

// split_collectives.cc. Gathers and scatters every tensor by itself.
void SplitCollectives(Program* program);

// gate_sums.cc. The gradient of a gated unit's input is the sum of two products, one for the gradient of each half. The
// ranks of the layer sum this gradient. This function makes every such sum twice, one behind the other, because the
// result of each product is as large as their sum.
void TakeGateSumsApart(Program* program);

// tensor_pieces.cc. Cuts collectives beside products into pieces. Does nothing if `pieces` is below 2.
void CutTensorCollectives(int pieces, Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_REWRITES_H_
