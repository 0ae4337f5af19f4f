// A program as frameworks run it that cut products and the collectives beside them into pieces (tensor parallelism).
//
// Of n pieces of a gather, the product behind it starts with the first, and the others come while it runs; what follows
// the product waits for them. Of n pieces of a reduce-scatter, all but the last are sent while the product in front of
// it makes the next. So a gather G and product P take G/n + max(P, (n-1)/n G) instead of G + P. The pieces of one kind
// go as one message of their bytes together; products are not cut.
//
// The result is for costing alone.
// Sources: Wang et al., ASPLOS 2023, "Overlap communication with dependent computation via decomposition"; NVIDIA
// Transformer Engine, user buffers (--tp-comm-overlap); PyTorch, asynchronous tensor parallelism.
#ifndef WEFT_SIMULATOR_RUNTIME_TENSOR_PIECES_H_
#define WEFT_SIMULATOR_RUNTIME_TENSOR_PIECES_H_

#include "proto/program.pb.h"

namespace weft::sim {

// Nothing for `pieces` below 2.
void CutTensorCollectives(int pieces, Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_TENSOR_PIECES_H_
