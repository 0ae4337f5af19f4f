// The products at the end of a model: the products that make logits, and the products that read the gradient of logits.
//
// Frameworks that compute layers in 8 bits leave these products in 16 bits. Megatron-Core's output layer is no layer of
// Transformer Engine (core/tensor_parallel/layers.py, ColumnParallelLinear). torchtitan's filter of layers names
// "output". llm-foundry's head is a plain product with the table of embeddings.
#ifndef WEFT_SIMULATOR_RUNTIME_LOSS_PRODUCTS_H_
#define WEFT_SIMULATOR_RUNTIME_LOSS_PRODUCTS_H_

#include <set>
#include <utility>

#include "proto/program.pb.h"

namespace weft::sim {

// Returns segment and step of each such product.
std::set<std::pair<int, int>> LossProducts(const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_LOSS_PRODUCTS_H_
