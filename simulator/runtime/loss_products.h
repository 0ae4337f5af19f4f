// The products at the end of a model: those that make logits, and those that read their gradient.
//
// Frameworks that compute layers in 8 bits leave them in 16: Megatron-Core's output layer is no layer of Transformer
// Engine (core/tensor_parallel/layers.py, ColumnParallelLinear), torchtitan's filter of layers names "output", and
// llm-foundry's head is a plain product with the table of embeddings.
#ifndef WEFT_SIMULATOR_RUNTIME_LOSS_PRODUCTS_H_
#define WEFT_SIMULATOR_RUNTIME_LOSS_PRODUCTS_H_

#include <set>
#include <utility>

#include "proto/program.pb.h"

namespace weft::sim {

// Segment and step of each.
std::set<std::pair<int, int>> LossProducts(const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_LOSS_PRODUCTS_H_
