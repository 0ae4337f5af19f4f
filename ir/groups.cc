#include "ir/groups.h"

#include "mlir/IR/Diagnostics.h"

namespace weft::ir {

bool ReadAxisGroup(mlir::Attribute entry, AxisGroup* group) {
  *group = {};
  if (auto indices = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(entry)) {
    group->indices = indices.asArrayRef();
    return true;
  }
  auto dictionary = mlir::dyn_cast<mlir::DictionaryAttr>(entry);
  if (!dictionary || dictionary.size() != 1) return false;
  const mlir::NamedAttribute only = *dictionary.begin();
  auto number = mlir::dyn_cast<mlir::IntegerAttr>(only.getValue());
  if (!number || !number.getType().isSignlessInteger(64)) return false;
  if (only.getName() == "block") {
    group->block = number.getInt();
  } else if (only.getName() == "stride") {
    group->stride = number.getInt();
  } else {
    return false;
  }
  return number.getInt() > 0;
}

mlir::LogicalResult CheckOver(mlir::Operation* op, llvm::StringRef id, mlir::DictionaryAttr over, int64_t members) {
  if (members < 2) {
    return op->emitOpError() << "[" << id << "] a group must have at least 2 members, got " << members;
  }
  if (over.empty()) return op->emitOpError() << "[" << id << "] over must name an axis";
  for (mlir::NamedAttribute entry : over) {
    AxisGroup group;
    bool valid = ReadAxisGroup(entry.getValue(), &group);
    int64_t previous = -1;
    for (int64_t index : group.indices) {
      valid &= index > previous;
      previous = index;
    }
    if (!valid) {
      return op->emitOpError() << "[" << id << "] over must name axis " << entry.getName()
                               << " with ascending coordinates (array<i64: 0, 2>; empty = all), {block = n : i64} or "
                                  "{stride = n : i64} with n > 0, got "
                               << entry.getValue();
    }
    const int64_t factor = group.block > 0 ? group.block : static_cast<int64_t>(group.indices.size());
    if (factor > 1 && members % factor != 0) {
      return op->emitOpError() << "[" << id << "] " << members << " members are not a multiple of the " << factor
                               << " coordinates on axis " << entry.getName();
    }
  }
  return mlir::success();
}

}  // namespace weft::ir
