// Helpers that create the collective actions of the rank level and their groups.
#ifndef WEFT_COMPILER_RANK_RANK_COLLECTIVES_H_
#define WEFT_COMPILER_RANK_RANK_COLLECTIVES_H_

#include <cstdint>
#include <vector>

#include "ir/rank_ops.h"
#include "mlir/IR/Builders.h"

namespace weft {

// The algorithm with one round of messages, which adds in member order. It is used for shared tensors, which must be
// added in model order, and for the few elements that are summed over `pipe`.
constexpr llvm::StringLiteral kDirectSum = "direct";

// Which ranks of axis `data` take part.
enum class DataRanks {
  kAll,
  // The ranks that share one copy of model states (ZeRO). If each rank has its own copy, only the rank itself.
  kSharing,
  // The ranks that hold the same part of model states. If each rank has its own copy, all ranks; if all ranks share one
  // copy, only the rank itself.
  kSamePart,
};

// The group of all ranks along `axes`. Axes that the mesh does not have are ignored. On `data`, `ranks` selects the
// members. The axis name kOverGroups (state_shards.h) stands for `data` with kSamePart.
mlir::DictionaryAttr GroupOver(ir::ProgramOp program, llvm::ArrayRef<llvm::StringRef> axes,
                               DataRanks ranks = DataRanks::kAll);

// Returns the group `over`, restricted to the coordinates `indices` on `axis`.
mlir::DictionaryAttr WithIndices(mlir::DictionaryAttr over, llvm::StringRef axis, llvm::ArrayRef<int64_t> indices);

// Axes with more than one rank, besides `pipe`, over which the gradients of a tensor's uses are summed.
std::vector<llvm::StringRef> SyncAxes(ir::ProgramOp program, int tensor);

ir::AllReduceOp AllReduce(mlir::OpBuilder& builder, mlir::ValueRange sources, mlir::ValueRange destinations,
                          mlir::DictionaryAttr over, ir::Purpose purpose, llvm::StringRef algorithm, int stage,
                          mlir::ValueRange after = {});

// Adds a reduce-scatter that writes the rank's parts of the sums into new buffers of class `communication` with these
// `types`.
ir::ReduceScatterOp ReduceScatter(mlir::OpBuilder& builder, mlir::ValueRange sources, mlir::TypeRange types,
                                  mlir::DictionaryAttr over, ir::Purpose purpose, llvm::StringRef algorithm, int stage,
                                  mlir::ValueRange after = {});

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_RANK_COLLECTIVES_H_
