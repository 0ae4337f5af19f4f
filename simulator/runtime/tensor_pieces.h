// A program as run by frameworks that cut products and the collectives beside them into pieces (tensor parallelism).
//
// With n pieces of a gather, the product behind the gather starts with the first piece. The other pieces arrive while
// the product runs, and the step after the product waits for them. With n pieces of a reduce-scatter, all pieces but
// the last are sent while the product in front of the reduce-scatter makes the next piece. So a gather G and a product
// P take G/n + max(P, (n-1)/n G) instead of G + P. The pieces of one kind go as one message with the bytes of all.
// Products are not cut.
//
// The result is for costing only. Sources: Wang et al., ASPLOS 2023, "Overlap communication with dependent computation
// via decomposition"; NVIDIA Transformer Engine, user buffers (--tp-comm-overlap); PyTorch, asynchronous tensor
// parallelism.
#ifndef WEFT_SIMULATOR_RUNTIME_TENSOR_PIECES_H_
#define WEFT_SIMULATOR_RUNTIME_TENSOR_PIECES_H_

#include "proto/program.pb.h"

namespace weft::sim {

// Does nothing if `pieces` is below 2.
void CutTensorCollectives(int pieces, Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_TENSOR_PIECES_H_
