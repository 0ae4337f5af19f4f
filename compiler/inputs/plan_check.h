// Refuses plan fields that cannot be combined with the plan's schedule or model. Errors name the plan's fields.
#ifndef WEFT_COMPILER_INPUTS_PLAN_CHECK_H_
#define WEFT_COMPILER_INPUTS_PLAN_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Refuses a plan whose schedule has the name of a schedule from the registry, but also a definition with another name
// or none.
absl::Status CheckScheduleName(const PlanSchedule& plan);

// Refuses to freeze a schedule that is already static, unless plan.freeze made it so. The message names the schedules
// that are message-driven.
absl::Status CheckFreeze(const PlanSchedule& plan, const PipelineSchedule& schedule);

// Checks what the tensor axes x, y and z and ZeRO 2 and 3 require of the model, the recipe and the schedule.
absl::Status CheckTensorParallel(const ModelGraph& model, const Plan& plan, const Recipe& recipe,
                                 const PipelineSchedule& schedule);

// Refuses more stages than the model has layers.
absl::Status CheckStages(const ModelGraph& model, int64_t ranks, int64_t stages);

// Refuse layers that the model does not have.
absl::Status CheckRecomputeLayers(const ModelGraph& model, const Recompute& recompute);

absl::Status CheckKeptLayers(const ModelGraph& model, const Zero& zero);

// Returns `deadlock`, the refusal of a program that blocks. If the common order of transfers may be the reason, the
// message first names the plan's fields to change and their new values.
absl::Status WithTransferOrder(const Plan& plan, const absl::Status& deadlock);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_PLAN_CHECK_H_
