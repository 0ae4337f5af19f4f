// Exports one weft.segment op as a message.
#ifndef WEFT_COMPILER_EXPORT_EXPORT_SEGMENT_H_
#define WEFT_COMPILER_EXPORT_EXPORT_SEGMENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/segments/segment_set.h"
#include "ir/graph_ops.h"

namespace weft {

// Where the values lie in an operand that holds several.
struct Layout {
  struct Place {
    int64_t offset = 0;
    mlir::RankedTensorType type;
    // Lies in the operand `saved_for_input`.
    bool for_input = false;
  };
  // The key is `use`.
  std::map<int32_t, Place> places;
  int64_t bytes = 0;
  int64_t for_input_bytes = 0;
};
// Layouts of the roles Saved and SavedGrad: one segment of a stage writes them, others read them.
using Layouts = std::map<ir::Role, Layout>;

// `tensors`: the module's tensors, by index. `known`: layouts of the stage's segments that are exported already.
// `made`, if not null, receives the layouts that `known` did not have. Errors are emitted at the ops.
mlir::FailureOr<StageSegment> ExportSegment(ir::SegmentOp segment, const std::vector<ir::TensorOp>& tensors,
                                            const Layouts& known, Layouts* made);

// Pipe rank of a segment that belongs to a rank. If the segment has no rank number, its stage's number.
int64_t RankOf(ir::SegmentOp segment);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_EXPORT_SEGMENT_H_
