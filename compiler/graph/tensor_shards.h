// Describes which part of every logical tensor each rank holds: makes the options of weft-shard and weft-shard-states,
// and describes the results of these passes.
#ifndef WEFT_COMPILER_GRAPH_TENSOR_SHARDS_H_
#define WEFT_COMPILER_GRAPH_TENSOR_SHARDS_H_

#include "compiler/passes/passes.h"
#include "compiler/segments/segment_set.h"
#include "compiler/segments/state_shards.h"
#include "ir/tensor_parallel.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft {

// True if the ranks hold only parts of tensors.
bool IsSharded(const ir::TensorParallel& sizes);

// `sequence_length`: number of rows of a sequence.
ShardOptions OptionsOfShard(const ir::TensorParallel& sizes, int64_t sequence_length);

// The returned options point into `zero`.
ShardStatesOptions OptionsOfShardStates(const StateShards& zero, const std::string& algorithm);

// Fills in `shards` and `norm_axes` from the weft.tensor ops of a module.
void DescribeShards(mlir::ModuleOp module, SegmentSet* set);

}  // namespace weft

#endif  // WEFT_COMPILER_GRAPH_TENSOR_SHARDS_H_
