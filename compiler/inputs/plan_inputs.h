// What the user gave, with defaults filled in, and what follows from it together.
#ifndef WEFT_COMPILER_INPUTS_PLAN_INPUTS_H_
#define WEFT_COMPILER_INPUTS_PLAN_INPUTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/inputs/asynchronous.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Specs with their defaults filled in, and what follows from them together.
struct PlanInputs {
  ModelGraph model;
  Recipe recipe;
  Plan plan;
  Cluster cluster;
  // Recipe and plan as they were given, without defaults.
  Recipe asked_recipe = {};
  Plan asked_plan = {};
  // The cost model of the durations by which the compiler chooses.
  std::string cost = "roofline";
  int32_t microbatches = 1;
  // Stages, lanes and placement are as with the costs of this plan, the order of slots need not be.
  PipelineSchedule schedule = {};
  // Of a schedule that never flushes; `microbatches` are those of an optimizer step.
  std::optional<AsynchronousPlan> asynchronous = {};
  // Told what is done from then on (CompileOptions.on_phase).
  std::function<void(absl::string_view)> on_phase = [](absl::string_view) {};
};

// Validates everything by itself and together. InvalidArgument names the field; NotFound an unknown schedule or
// collective. `notes`, if not null, gets what the user should know.
absl::StatusOr<PlanInputs> ResolveInputs(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                         const Cluster& cluster, std::vector<std::string>* notes);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_PLAN_INPUTS_H_
