// Exports the weft.segment ops of a module as messages. This is the last step from a model graph to segments.
#ifndef WEFT_COMPILER_EXPORT_EXPORT_SEGMENTS_H_
#define WEFT_COMPILER_EXPORT_EXPORT_SEGMENTS_H_

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft {

// Fills in all fields of `set` except `tensors`, `shards` and flops. Errors are emitted at the ops.
mlir::LogicalResult ExportSegmentOps(mlir::ModuleOp module, SegmentSet* set);
// Returns the same as a new set, with errors as a status.
absl::StatusOr<SegmentSet> ExportSegments(mlir::ModuleOp module);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_EXPORT_SEGMENTS_H_
