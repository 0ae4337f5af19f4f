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

// Where the values lie within an operand that holds several values.
struct Layout {
  struct Place {
    int64_t offset = 0;
    mlir::RankedTensorType type;
    // Lies in the operand `saved_for_input`.
    bool for_input = false;
  };
  // Maps the `use` of a value to its place.
  std::map<int32_t, Place> places;
  int64_t bytes = 0;
  int64_t for_input_bytes = 0;
};
// Layouts of the roles Saved and SavedGrad: one segment of a stage writes them, others read them.
using Layouts = std::map<ir::Role, Layout>;

// `tensors`: the module's tensors, by index. `known`: layouts that already exported segments of the same stage have
// defined. `made`, if not null, receives the layouts that `known` did not have. Errors are emitted at the ops.
mlir::FailureOr<StageSegment> ExportSegment(ir::SegmentOp segment, const std::vector<ir::TensorOp>& tensors,
                                            const Layouts& known, Layouts* made);

// Pipe rank of a segment. If the segment has no rank, this is the number of its stage.
int64_t RankOf(ir::SegmentOp segment);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_EXPORT_SEGMENT_H_
