// The end of a step with ZeRO stages 1 and 2: behind the optimizer, parameters are brought together again of the parts
// that the data replicas have updated.
#ifndef WEFT_COMPILER_RANK_WEIGHT_GATHERS_H_
#define WEFT_COMPILER_RANK_WEIGHT_GATHERS_H_

#include "compiler/rank/rank_util.h"
#include "ir/rank_ops.h"

namespace weft {

// Adds to a template the all-gathers of purpose gather_weights, in buckets, in the order in which its microbatch
// actions read the parameters first. `optimizer` is the signature of its optimizer step; `buffers` has its parts, where
// they are not those of MASTER.
void GatherWeights(ir::ProgramOp program, ir::TemplateOp t, ir::SignatureOp optimizer, mlir::OpBuilder& builder,
                   PersistentBuffers& buffers);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_WEIGHT_GATHERS_H_
