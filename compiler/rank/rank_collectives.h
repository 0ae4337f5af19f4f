// Collective actions of the rank level: their groups, and the ops.
#ifndef WEFT_COMPILER_RANK_RANK_COLLECTIVES_H_
#define WEFT_COMPILER_RANK_RANK_COLLECTIVES_H_

#include <cstdint>
#include <vector>

#include "ir/rank_ops.h"
#include "mlir/IR/Builders.h"

namespace weft {

// One round of messages, and sums in member order: for shared tensors, which are added in model order, and for the few
// elements that are summed over `pipe`.
constexpr llvm::StringLiteral kDirectSum = "direct";

// Which ranks of axis `data` take part.
enum class DataRanks {
  kAll,
  // Those that share one copy of model states (ZeRO); none where each has its own.
  kSharing,
  // Those that hold the same part of them; all where each has its own copy, none where all share one.
  kSamePart,
};

// The group of all ranks along those of `axes` that the mesh has, on `data` of those that `ranks` says. kOverGroups
// (state_shards.h) stands for `data` with kSamePart.
mlir::DictionaryAttr GroupOver(ir::ProgramOp program, llvm::ArrayRef<llvm::StringRef> axes,
                               DataRanks ranks = DataRanks::kAll);

// `over` with these coordinates of `axis` too.
mlir::DictionaryAttr WithIndices(mlir::DictionaryAttr over, llvm::StringRef axis, llvm::ArrayRef<int64_t> indices);

// Axes of more than one rank over which the gradients of a tensor's uses are summed, besides `pipe`.
std::vector<llvm::StringRef> SyncAxes(ir::ProgramOp program, int tensor);

ir::AllReduceOp AllReduce(mlir::OpBuilder& builder, mlir::ValueRange sources, mlir::ValueRange destinations,
                          mlir::DictionaryAttr over, ir::Purpose purpose, llvm::StringRef algorithm, int stage,
                          mlir::ValueRange after = {});

// Into new buffers of class `communication`, the rank's parts of the sums; `types` are theirs.
ir::ReduceScatterOp ReduceScatter(mlir::OpBuilder& builder, mlir::ValueRange sources, mlir::TypeRange types,
                                  mlir::DictionaryAttr over, ir::Purpose purpose, llvm::StringRef algorithm, int stage,
                                  mlir::ValueRange after = {});

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_RANK_COLLECTIVES_H_
