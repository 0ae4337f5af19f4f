#include "compiler/segments/group_of.h"

#include "ir/groups.h"

namespace weft {

namespace {

void AddAxis(mlir::StringAttr axis, mlir::Attribute entry, Group* group) {
  ir::AxisGroup who;
  if (!entry || !ir::ReadAxisGroup(entry, &who)) return;
  AxisSubset& subset = *group->add_axes();
  subset.set_axis(axis.str());
  for (int64_t index : who.indices) subset.add_indices(index);
  subset.set_block(who.block);
  subset.set_stride(who.stride);
}

}  // namespace

Group GroupOf(mlir::DictionaryAttr over) {
  Group group;
  for (mlir::NamedAttribute entry : over) AddAxis(entry.getName(), entry.getValue(), &group);
  return group;
}

Group GroupOf(mlir::DictionaryAttr over, llvm::ArrayRef<mlir::StringAttr> axes) {
  Group group;
  for (mlir::StringAttr axis : axes) AddAxis(axis, over.get(axis), &group);
  return group;
}

}  // namespace weft
