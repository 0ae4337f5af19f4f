// Padding of a tensor. If the parts that ranks hold are rounded up, all parts together have a few more elements than
// the tensor.
#ifndef WEFT_COMPILER_SEGMENTS_TENSOR_ROOM_H_
#define WEFT_COMPILER_SEGMENTS_TENSOR_ROOM_H_

#include <cstdint>

#include "ir/graph_ops.h"
#include "mlir/IR/Builders.h"

namespace weft {

constexpr llvm::StringLiteral kPaddedElementsAttr = "room";

// Sets the total number of elements of all parts. It must be larger than the number of elements of the tensor.
inline void SetPaddedElements(ir::TensorOp tensor, int64_t elements) {
  tensor->setAttr(kPaddedElementsAttr, mlir::Builder(tensor.getContext()).getI64IntegerAttr(elements));
}

// Total number of elements of all parts; 0 if it equals the number of elements of the tensor.
inline int64_t PaddedElements(ir::TensorOp tensor) {
  auto room = tensor->getAttrOfType<mlir::IntegerAttr>(kPaddedElementsAttr);
  return room ? room.getInt() : 0;
}

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_TENSOR_ROOM_H_
