// Room behind a tensor: where ranks have parts of it that are rounded up, what the parts are gathered into or scattered
// from is a little longer than the tensor.
#ifndef WEFT_COMPILER_SEGMENTS_TENSOR_ROOM_H_
#define WEFT_COMPILER_SEGMENTS_TENSOR_ROOM_H_

#include <cstdint>

#include "ir/graph_ops.h"
#include "mlir/IR/Builders.h"

namespace weft {

constexpr llvm::StringLiteral kRoomAttr = "room";

// Elements of all parts of a tensor together. More than it has.
inline void SetRoom(ir::TensorOp tensor, int64_t elements) {
  tensor->setAttr(kRoomAttr, mlir::Builder(tensor.getContext()).getI64IntegerAttr(elements));
}

// 0 where the parts are as long as the tensor.
inline int64_t RoomOf(ir::TensorOp tensor) {
  auto room = tensor->getAttrOfType<mlir::IntegerAttr>(kRoomAttr);
  return room ? room.getInt() : 0;
}

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_TENSOR_ROOM_H_
