#include "compiler/rank/rank_collectives.h"

#include <algorithm>

#include "compiler/segments/state_shards.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

namespace {

// The ranks of axis `data` that take part in a collective; null if that is only the rank itself.
mlir::Attribute OnData(ir::ProgramOp program, DataRanks ranks) {
  mlir::Builder builder(program.getContext());
  const int64_t size = program.getMesh().getSize("data");
  const int64_t sharing = std::max<int64_t>(1, program.getZeroGroup());
  const bool block = ranks == DataRanks::kSharing;
  if (ranks == DataRanks::kAll || sharing == (block ? size : 1)) return builder.getDenseI64ArrayAttr({});
  if (sharing == (block ? 1 : size)) return {};
  return builder.getDictionaryAttr(
      builder.getNamedAttr(block ? "block" : "stride", builder.getI64IntegerAttr(sharing)));
}

}  // namespace

mlir::DictionaryAttr GroupOver(ir::ProgramOp program, llvm::ArrayRef<llvm::StringRef> axes, DataRanks ranks) {
  mlir::Builder builder(program.getContext());
  llvm::SmallVector<mlir::NamedAttribute> over;
  for (llvm::StringRef axis : axes) {
    if (axis == kOverGroups) {
      if (mlir::Attribute who = OnData(program, DataRanks::kSamePart))
        over.push_back(builder.getNamedAttr("data", who));
      continue;
    }
    bool listed = llvm::any_of(program.getMesh().getNames(), [&](mlir::StringAttr name) { return name == axis; });
    if (!listed) continue;
    mlir::Attribute who = axis == "data" ? OnData(program, ranks) : builder.getDenseI64ArrayAttr({});
    if (who) over.push_back(builder.getNamedAttr(axis, who));
  }
  return builder.getDictionaryAttr(over);
}

mlir::DictionaryAttr WithIndices(mlir::DictionaryAttr over, llvm::StringRef axis, llvm::ArrayRef<int64_t> indices) {
  mlir::NamedAttrList list(over);
  list.set(axis, mlir::DenseI64ArrayAttr::get(over.getContext(), indices));
  return list.getDictionary(over.getContext());
}

std::vector<llvm::StringRef> SyncAxes(ir::ProgramOp program, int tensor) {
  std::vector<llvm::StringRef> axes;
  auto add = [&](llvm::StringRef axis) {
    if (axis == kOverGroups || program.getMesh().getSize(axis) > 1) axes.push_back(axis);
  };
  mlir::ArrayAttr by_tensor = program.getSyncAxesAttr();
  if (!by_tensor) {
    add("data");
  } else {
    for (auto axis : mlir::cast<mlir::ArrayAttr>(by_tensor[tensor]).getAsRange<mlir::StringAttr>()) add(axis);
  }
  return axes;
}

ir::AllReduceOp AllReduce(mlir::OpBuilder& builder, mlir::ValueRange sources, mlir::ValueRange destinations,
                          mlir::DictionaryAttr over, ir::Purpose purpose, llvm::StringRef algorithm, int stage,
                          mlir::ValueRange after) {
  return builder.create<ir::AllReduceOp>(builder.getUnknownLoc(), mlir::TypeRange(),
                                         ir::TokenType::get(builder.getContext()), sources, destinations, over, purpose,
                                         algorithm, stage, after, mlir::DenseI64ArrayAttr());
}

ir::ReduceScatterOp ReduceScatter(mlir::OpBuilder& builder, mlir::ValueRange sources, mlir::TypeRange types,
                                  mlir::DictionaryAttr over, ir::Purpose purpose, llvm::StringRef algorithm, int stage,
                                  mlir::ValueRange after) {
  return builder.create<ir::ReduceScatterOp>(builder.getUnknownLoc(), types, ir::TokenType::get(builder.getContext()),
                                             sources, mlir::ValueRange(), over, purpose, algorithm, stage, after,
                                             mlir::DenseI64ArrayAttr());
}

}  // namespace weft
