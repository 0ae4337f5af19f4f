// One weft.segment op as a message.
#ifndef WEFT_COMPILER_EXPORT_EXPORT_SEGMENT_H_
#define WEFT_COMPILER_EXPORT_EXPORT_SEGMENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/segments/segment_set.h"
#include "ir/graph_ops.h"

namespace weft {

// Where the values of an operand with several lie.
struct Layout {
  struct Place {
    int64_t offset = 0;
    mlir::RankedTensorType type;
  };
  // By `use`.
  std::map<int32_t, Place> places;
  int64_t bytes = 0;
};
// Of the roles Saved and SavedGrad; what one segment of a stage writes, others read.
using Layouts = std::map<ir::Role, Layout>;

// `tensors`: those of the module, by index. `known`: of the stage's segments that are exported already; `made`, if
// not null, gets those of the operands that it did not have. Errors are emitted at the ops.
mlir::FailureOr<StageSegment> ExportSegment(ir::SegmentOp segment, const std::vector<ir::TensorOp>& tensors,
                                            const Layouts& known, Layouts* made);

// Pipe rank of a segment that is of one; without a number it is that of its stage.
int64_t RankOf(ir::SegmentOp segment);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_EXPORT_SEGMENT_H_
