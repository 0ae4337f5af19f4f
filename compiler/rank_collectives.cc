#include "compiler/rank_collectives.h"

#include "llvm/ADT/STLExtras.h"

namespace weft {

mlir::DictionaryAttr GroupOver(ir::ProgramOp program, llvm::ArrayRef<llvm::StringRef> axes) {
  mlir::Builder builder(program.getContext());
  llvm::SmallVector<mlir::NamedAttribute> over;
  for (llvm::StringRef axis : axes) {
    bool listed = llvm::any_of(program.getMesh().getNames(), [&](mlir::StringAttr name) { return name == axis; });
    if (listed) over.push_back(builder.getNamedAttr(axis, builder.getDenseI64ArrayAttr({})));
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
    if (program.getMesh().getSize(axis) > 1) axes.push_back(axis);
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
  return builder.create<ir::AllReduceOp>(builder.getUnknownLoc(), ir::TokenType::get(builder.getContext()), sources,
                                         destinations, over, purpose, algorithm, stage, after);
}

}  // namespace weft
