// Exports the planned rank level as the message that simulator and executor read.
#ifndef WEFT_COMPILER_EXPORT_EXPORT_PROGRAM_H_
#define WEFT_COMPILER_EXPORT_EXPORT_PROGRAM_H_

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"
#include "ir/rank_ops.h"
#include "proto/program.pb.h"

namespace weft {

// Writes those fields of a program that come from the rank level: templates, actions, buffers, segments, tensors, mesh,
// schedule, stages and microbatches. The pass plan-memory must have run on the program. The caller fills in the rest
// (recipe, cluster, names). FailedPrecondition names the op that a pass should have replaced or planned.
absl::StatusOr<Program> ExportProgram(ir::ProgramOp program, const SegmentSet& segments);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_EXPORT_PROGRAM_H_
