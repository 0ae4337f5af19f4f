// What in a plan does not go together with its schedule, said in the plan's words.
#ifndef WEFT_COMPILER_INPUTS_PLAN_CHECK_H_
#define WEFT_COMPILER_INPUTS_PLAN_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// A definition under the name of another schedule.
absl::Status CheckScheduleName(const PlanSchedule& plan);

// Freezing of a schedule that is static already, unless plan.freeze made it so; the message names those that are not.
absl::Status CheckFreeze(const PlanSchedule& plan, const PipelineSchedule& schedule);

// What the tensor axes x, y and z and ZeRO 3 ask of the model, of the recipe and of the schedule.
absl::Status CheckTensorParallel(const ModelGraph& model, const Plan& plan, const Recipe& recipe,
                                 const PipelineSchedule& schedule);

// More stages than the model has layers.
absl::Status CheckStages(const ModelGraph& model, int64_t ranks, int64_t stages);

// Layers that the model does not have.
absl::Status CheckRecomputeLayers(const ModelGraph& model, const Recompute& recompute);

absl::Status CheckKeptLayers(const ModelGraph& model, const Zero& zero);

// `status` of a program's proof; where the common order of its transfers can be why it blocks, with the fields of the
// plan that say so and what to set instead in front of the cycle.
absl::Status WithTransferOrder(const Plan& plan, const absl::Status& status);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_PLAN_CHECK_H_
