// Sums gradients over the replicas of a stage, in buckets, while backwards of other stages still run. If the optimizer
// has only a part of the gradient (ZeRO stage 1), a bucket is reduce-scattered over the data replicas that share one
// copy of the optimizer's states, and the parts are summed over all others.
#ifndef WEFT_COMPILER_RANK_REPLICA_SUMS_H_
#define WEFT_COMPILER_RANK_REPLICA_SUMS_H_

#include <map>

#include "compiler/rank/gradient_holders.h"
#include "ir/rank_ops.h"

namespace weft {

// The parts of scattered gradients that the ranks of a template have.
using GradientParts = std::map<GradientUse, mlir::Value>;

// Adds the collectives of purpose gradient_sync to all templates. Returns the parts of each template.
std::map<mlir::Operation*, GradientParts> SumOverReplicas(ir::ProgramOp program, const GradientHolders& gradients);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_REPLICA_SUMS_H_
