// Lowers resolved inputs through the graph and rank levels to a Program. It makes no choices and does not verify the
// program.
#ifndef WEFT_COMPILER_LOWER_PROGRAM_H_
#define WEFT_COMPILER_LOWER_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/lower_segments.h"
#include "compiler/segments/segment_set.h"
#include "ir/rank_ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "proto/program.pb.h"

namespace weft {

// Returns a function for the cost of a step in picoseconds, by `inputs.cost` and the cluster's figures. `inputs` must
// outlive it. NotFound for an unknown cost model; InvalidArgument for "unit", which has no durations of steps.
absl::StatusOr<StepCost> CostsOf(const PlanInputs& inputs);

// Measures the layers of `inputs.model`, as the compiler does before it cuts them into stages.
absl::StatusOr<MeasuredLayers> MeasureLayersOf(const PlanInputs& inputs, const StepCost& cost);

// A context for one compilation.
struct CompileContext {
  mlir::MLIRContext mlir{mlir::MLIRContext::Threading::DISABLED};
  CompileContext() { mlir.loadDialect<ir::WeftDialect>(); }
};

// One program at the rank level, with its segments.
struct RankLevel {
  SegmentSet segments;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ir::ProgramOp program() { return *module->getOps<ir::ProgramOp>().begin(); }
};

// Lowers the training program up to the end of the rank level.
absl::StatusOr<RankLevel> LowerTraining(CompileContext& context, const PlanInputs& inputs, const StepCost& cost);

// Compiles the training program alone. `training`, if not null, receives its rank level.
absl::StatusOr<Program> CompileTraining(CompileContext& context, const PlanInputs& inputs, const StepCost& cost,
                                        RankLevel* training);

// Lowers a plan to its training program. With `evaluation`, also adds the evaluation program, unless the schedule never
// flushes. The result is not yet post-validated (PostValidate) and not yet proven. `layers_per_stage`, if not null,
// receives the partition. `notes`, if not null, receives notes on offload. FailedPrecondition names a collective that
// is left to network switches that cannot sum.
absl::StatusOr<Program> LowerPlan(const PlanInputs& inputs, const StepCost& cost, bool evaluation,
                                  std::vector<int32_t>* layers_per_stage, std::vector<std::string>* notes);

}  // namespace weft

#endif  // WEFT_COMPILER_LOWER_PROGRAM_H_
