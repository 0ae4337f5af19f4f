// Resolves the user's inputs: fills in defaults, and derives the values that follow from several inputs together.
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

// The inputs with their defaults filled in, and values derived from several inputs together.
struct PlanInputs {
  ModelGraph model;
  Recipe recipe;
  Plan plan;
  Cluster cluster;
  // Recipe and plan as they were given, without defaults.
  Recipe asked_recipe = {};
  Plan asked_plan = {};
  // The cost model of the durations that the compiler's choices are based on.
  std::string cost = "roofline";
  int32_t microbatches = 1;
  // The stages, lanes and placement are final, for the costs of this plan. The order of slots may still differ in the
  // program.
  PipelineSchedule schedule = {};
  // Set for a schedule that never flushes; `microbatches` then counts one optimizer step.
  std::optional<AsynchronousPlan> asynchronous = {};
  // If true, arenas are planned without the longer search for low ones (compiler/memory/arena.h). They may be a few
  // percent higher.
  bool quick_arenas = false;
  // Called with the name of each phase when the phase begins (CompileOptions.on_phase).
  std::function<void(absl::string_view)> on_phase = [](absl::string_view) {};
};

// Validates each input separately and all inputs together. InvalidArgument names the field; NotFound an unknown
// schedule or collective. `notes`, if not null, receives notes for the user.
absl::StatusOr<PlanInputs> ResolveInputs(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                         const Cluster& cluster, std::vector<std::string>* notes);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_PLAN_INPUTS_H_
