// Sums of gradients over the replicas of a stage, in buckets, while backwards of other stages still run.
#ifndef WEFT_COMPILER_REPLICA_SUMS_H_
#define WEFT_COMPILER_REPLICA_SUMS_H_

#include "compiler/gradient_holders.h"
#include "ir/rank_ops.h"

namespace weft {

// Adds the all-reduces of purpose gradient_sync to all templates.
void SumOverReplicas(ir::ProgramOp program, const GradientHolders& gradients);

}  // namespace weft

#endif  // WEFT_COMPILER_REPLICA_SUMS_H_
