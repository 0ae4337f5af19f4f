// The start of the rank level: a weft.program that holds the signatures of exported segments and no action yet.
#ifndef WEFT_COMPILER_RANK_RANK_PROGRAM_H_
#define WEFT_COMPILER_RANK_RANK_PROGRAM_H_

#include <cstdint>
#include <string>

#include "compiler/segments/segment_set.h"
#include "ir/rank_ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "proto/plan.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

struct RankProgramOptions {
  std::string name;
  // The plan, resolved (proto/validate/validate.h).
  Plan plan;
  int32_t microbatches = 1;
  bool clip = false;
  bool evaluation = false;
  // Costs of one microbatch, in any unit, for schedules that order by time.
  SlotCosts costs;
};

// `context` must have the dialect loaded.
mlir::OwningOpRef<mlir::ModuleOp> BuildRankProgram(mlir::MLIRContext* context, const SegmentSet& segments,
                                                   const RankProgramOptions& options);

// Prepares the evaluation program `program`, which has no template yet. The program gets the templates of `planned`,
// with the same parameters and losses at the same offsets. The bytes of all persistent buffers of `planned` stay
// reserved.
void SharePersistentBuffers(ir::ProgramOp planned, ir::ProgramOp program);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_RANK_PROGRAM_H_
