// Weights that are cast to 8 bits once per optimizer step and then kept for all its microbatches.
//
// Transformer Engine keeps the cast weight, as it is and transposed, over the microbatches of a step
// (pytorch/module/linear.py: `is_first_microbatch`, `get_weight_workspace` with `cache_name`). Megatron-Core marks the
// first microbatch (core/extensions/transformer_engine.py, `set_is_first_microbatch`). Weights that ZeRO 3 gathers are
// not kept. A program with several optimizer steps in flight has several versions of each weight, which are not kept
// either. Weights that are not kept are cast for every product.
#ifndef WEFT_SIMULATOR_RUNTIME_WEIGHT_CASTS_H_
#define WEFT_SIMULATOR_RUNTIME_WEIGHT_CASTS_H_

#include <cstdint>
#include <set>
#include <tuple>

#include "proto/program.pb.h"

namespace weft::sim {

// Returns segment, step and factor (0 or 1) of products that read a kept weight. If `casts_at_loss` is false, products
// at the loss are left out, because their factors are not cast.
std::set<std::tuple<int, int, int>> KeptWeightFactors(const Program& program, bool casts_at_loss);

// True for a step that CastWeightsOnce added.
bool IsWeightCast(const Step& step);

// Returns the bytes that the cast moves, if it moves `bytes` per element of the weight for each of its two products.
int64_t WeightCastBytes(const Segment& segment, const Step& cast, double bytes);

// For each kept weight, adds a CAST in front of the first product of a repetition that reads the weight. The cast moves
// `bytes` per element for the product of the forward, and again for the product of the backward. For costing only.
void CastWeightsOnce(double bytes, bool casts_at_loss, Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_WEIGHT_CASTS_H_
