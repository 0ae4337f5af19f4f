#include "compiler/inputs/plan_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/segments/state_shards.h"
#include "proto/util/mesh.h"
#include "schedules/pipeline/schedule_text.h"

namespace weft {

absl::Status CheckScheduleName(const PlanSchedule& plan) {
  const absl::Status status = CheckDefinitionName(plan.name(), plan.definition());
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("plan.schedule: ", status.message()));
}

absl::Status CheckFreeze(const PlanSchedule& plan, const PipelineSchedule& schedule) {
  if (!plan.freeze() || schedule.message_driven) return absl::OkStatus();
  // `schedule` may already be frozen, so use the plan's definition or name to decide whether it was message-driven.
  const std::vector<std::string> names = MessageDrivenSchedules();
  if (!plan.definition().empty()) {
    const absl::StatusOr<NamedSchedule> named = ParseSchedule(plan.definition());
    if (named.ok() && named->schedule.message_driven) return absl::OkStatus();
  } else if (std::find(names.begin(), names.end(), plan.name()) != names.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "plan.schedule.freeze is given, but schedule '", plan.name(),
      "' is not message-driven, so there is nothing to freeze; message-driven schedules: ", absl::StrJoin(names, ", "),
      ", and definitions with 'message-driven:'"));
}

absl::Status CheckTensorParallel(const ModelGraph& model, const Plan& plan, const Recipe& recipe,
                                 const PipelineSchedule& schedule) {
  const Mesh& mesh = plan.mesh();
  const int64_t z = AxisSize(mesh, "z");
  const bool axes = AxisSize(mesh, "x") > 1 || AxisSize(mesh, "y") > 1 || z > 1;
  const int32_t zero = StateShardsOf(plan).stage;
  if (!axes && zero == 0) return absl::OkStatus();
  const absl::string_view cause = axes ? "mesh axes x, y and z must have size 1" : "plan.zero.stage must be 0 or 1";
  if (model.image_size() > 0 && plan.sequence_parallel() && AxisSize(mesh, "x") > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.sequence_parallel must be false for model '", model.name(),
        "': it cuts the rows of sequences, but convolutions and norms of groups need whole images; axis z cuts rows by "
        "images"));
  }
  const int64_t sequences = std::max<int64_t>(1, recipe.microbatch_sequences());
  if (sequences % z != 0) {
    const int64_t below = sequences / z * z;
    return absl::InvalidArgumentError(absl::StrCat(
        "recipe.microbatch_sequences = ", sequences, " must be a multiple of the ", z,
        " ranks of mesh axis z, which share a microbatch; nearest valid: ", below > 0 ? absl::StrCat(below, ", ") : "",
        below + z));
  }
  const absl::string_view name = plan.schedule().name();
  // Tensor axes and ZeRO 2 and 3 require collectives in the middle of stages, which message-driven schedules do not
  // support.
  if (schedule.message_driven && !plan.schedule().freeze() && (axes || zero > 1)) {
    return absl::InvalidArgumentError(absl::StrCat("schedule '", name,
                                                   "' is message-driven: its ranks choose their order while they run, "
                                                   "but the members of a collective must agree on it; ",
                                                   cause,
                                                   " with this schedule; or set plan.schedule.freeze, or use a static "
                                                   "schedule"));
  }
  return absl::OkStatus();
}

absl::Status CheckStages(const ModelGraph& model, int64_t ranks, int64_t stages) {
  const int64_t layers = model.ops().empty() ? 0 : int64_t{1} + model.ops(model.ops_size() - 1).layer();
  if (stages <= layers) return absl::OkStatus();
  const int64_t per_rank = std::max<int64_t>(stages / ranks, 1);
  return absl::InvalidArgumentError(absl::StrCat(
      "the pipe axis of plan.mesh (pp) = ", ranks, " with ", per_rank,
      per_rank == 1 ? " stage" : " stages (plan.schedule.virtual_stages, or two for each of its waves)",
      " per rank makes ", stages, " stages of at least one layer; the model has ", layers,
      " layers; nearest valid: ", layers >= per_rank ? absl::StrCat("pp = ", layers / per_rank) : "",
      layers >= per_rank && layers >= ranks ? " or " : "",
      layers >= ranks ? absl::StrCat("at most ", layers / ranks, layers < 2 * ranks ? " stage" : " stages", " per rank")
                      : "",
      layers < ranks && layers < per_rank ? absl::StrCat("at most ", layers, " stages in all") : ""));
}

absl::Status CheckRecomputeLayers(const ModelGraph& model, const Recompute& recompute) {
  if (recompute.mode() != Recompute::LAYERS || model.ops().empty()) return absl::OkStatus();
  const int64_t last = model.ops(model.ops_size() - 1).layer();
  for (int i = 0; i < recompute.layers_size(); ++i) {
    if (recompute.layers(i) >= 0 && recompute.layers(i) <= last) continue;
    return absl::InvalidArgumentError(absl::StrCat("plan.recompute.layers[", i, "] = ", recompute.layers(i),
                                                   " must be 0 to ", last, ", the layers of model '", model.name(),
                                                   "'; nearest: ", recompute.layers(i) < 0 ? 0 : last));
  }
  return absl::OkStatus();
}

absl::Status CheckKeptLayers(const ModelGraph& model, const Zero& zero) {
  if (model.ops().empty()) return absl::OkStatus();
  const int64_t last = model.ops(model.ops_size() - 1).layer();
  for (int i = 0; i < zero.kept_layers_size(); ++i) {
    if (zero.kept_layers(i) >= 0 && zero.kept_layers(i) <= last) continue;
    return absl::InvalidArgumentError(absl::StrCat("plan.zero.kept_layers[", i, "] = ", zero.kept_layers(i),
                                                   " must be 0 to ", last, ", the layers of model '", model.name(),
                                                   "'; nearest: ", zero.kept_layers(i) < 0 ? 0 : last));
  }
  return absl::OkStatus();
}

absl::Status WithTransferOrder(const Plan& plan, const absl::Status& deadlock) {
  if (plan.transfer_order() == BY_EDGE || plan.transfer_placement() != EARLY) return deadlock;
  return absl::Status(deadlock.code(), absl::StrCat("plan.transfer_order = ", TransferOrder_Name(plan.transfer_order()),
                                                    " makes transfers that are placed EARLY wait for each other; set "
                                                    "plan.transfer_placement to DEFERRED or FASTEST: ",
                                                    deadlock.message()));
}

}  // namespace weft
