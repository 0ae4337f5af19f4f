#include "planner/choices.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/segments/state_shards.h"
#include "planner/choose_recompute.h"
#include "planner/evaluate.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "schedules/pipeline/schedule_text.h"
#include "simulator/simulate.h"

namespace weft::planner {
namespace {

// True if stages have collectives. Ranks that choose their order at run time cannot have them (rule P6).
bool HasCollectives(const Plan& plan) {
  const Mesh& mesh = plan.mesh();
  return AxisSize(mesh, "x") > 1 || AxisSize(mesh, "y") > 1 || AxisSize(mesh, "z") > 1 || StateShardsOf(plan).stage > 1;
}

// Removes the collectives from the plan: every rank computes its stages alone.
void LeaveOutCollectives(Plan& plan) {
  for (MeshAxis& axis : *plan.mutable_mesh()->mutable_axes()) {
    if (axis.name() == "x" || axis.name() == "y" || axis.name() == "z") axis.set_size(1);
  }
  plan.clear_sequence_parallel();
  plan.clear_zero();
}

bool IsChosen(const Recompute& asked) {
  return asked.mode() == Recompute::FIT || (asked.mode() == Recompute::INTERVAL && asked.interval() == 0);
}

}  // namespace

absl::Status CheckChosenRecompute(const PlanInputs& inputs) {
  if (!IsChosen(inputs.plan.recompute()) || !inputs.schedule.message_driven || !HasCollectives(inputs.plan)) {
    return absl::OkStatus();
  }
  const bool fit = inputs.plan.recompute().mode() == Recompute::FIT;
  return absl::InvalidArgumentError(
      absl::StrCat("plan.recompute.", fit ? "mode = FIT" : "interval = 0",
                   " needs a static order for collectives in stages (mesh axes x, y, z, plan.zero.stage 2 or 3), but "
                   "weft makes this choice before plan.schedule.freeze gives schedule '",
                   inputs.plan.schedule().name(), "' an order; set ", fit ? "another mode" : "an interval"));
}

absl::Status ResolveRecompute(PlanInputs& inputs, const StepCost& cost, const Runtime* runtime,
                              std::vector<std::string>* notes) {
  if (!IsChosen(inputs.plan.recompute())) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(CheckChosenRecompute(inputs));
  const bool fit = inputs.plan.recompute().mode() == Recompute::FIT;
  PlanInputs tried = inputs;
  if (tried.plan.transfer_placement() == FASTEST) tried.plan.set_transfer_placement(EARLY);
  const int64_t ranks = AxisSize(inputs.plan.mesh(), "pipe");
  // The arenas on a device with less memory than the largest one count as larger by the difference.
  WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> capacities, UsableBytesOfPipeRanks(inputs));
  const int64_t capacity = *std::max_element(capacities.begin(), capacities.end());
  const PlanArenas plan = [&](const Recompute& recompute) -> absl::StatusOr<PlannedArenas> {
    *tried.plan.mutable_recompute() = recompute;
    // For schedules without a flush, this arena holds all versions of the weights that are in use at the same time, and
    // the activations that are saved for backwards of later steps.
    WEFT_ASSIGN_OR_RETURN(Evaluation made,
                          Evaluate({.inputs = tried, .cost = &cost, .simulate = false, .runtime = runtime}));
    const std::vector<int32_t>& counts = made.layers_per_stage;
    tried.plan.mutable_partition()->mutable_layers_per_stage()->Assign(counts.begin(), counts.end());
    PlannedArenas arenas;
    arenas.bytes = std::move(made.rank_bytes);
    for (size_t p = 0; fit && p < arenas.bytes.size(); ++p) arenas.bytes[p] += capacity - capacities[p];
    arenas.layers = RecomputableLayers(inputs.schedule.placement, ranks, counts);
    return arenas;
  };
  WEFT_ASSIGN_OR_RETURN(RecomputeDecision decision, fit ? ChooseFit(plan, capacity) : ChooseInterval(plan));
  *inputs.plan.mutable_recompute() = std::move(decision.recompute);
  *inputs.plan.mutable_partition() = tried.plan.partition();
  if (notes != nullptr) notes->push_back(std::move(decision.note));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<FrozenSchedule>> Freeze(PlanInputs& inputs, const StepCost& cost) {
  if (!inputs.plan.schedule().freeze() || !inputs.schedule.message_driven) return std::optional<FrozenSchedule>();
  PlanInputs simulated = inputs;
  const bool left_out = HasCollectives(inputs.plan);
  if (left_out) LeaveOutCollectives(simulated.plan);
  if (simulated.plan.transfer_placement() == FASTEST) simulated.plan.set_transfer_placement(EARLY);
  simulated.plan.clear_offload();
  const Candidate candidate = {.inputs = simulated, .cost = &cost, .post_validate = false, .trace = true};
  absl::StatusOr<Evaluation> made = Evaluate(candidate);
  if (!made.ok() && inputs.plan.transfer_order() != BY_EDGE) {
    simulated.plan.set_transfer_order(BY_EDGE);
    made = Evaluate(candidate);
  }
  WEFT_RETURN_IF_ERROR(made.status());
  WEFT_ASSIGN_OR_RETURN(FrozenSchedule frozen, FreezeRun(inputs.schedule, *made));
  frozen.without_collectives = left_out;
  inputs.schedule = frozen.schedule;
  PlanSchedule plan;
  plan.set_name(inputs.plan.schedule().name());
  plan.set_definition(FormatSchedule({"", frozen.schedule, inputs.microbatches, {}}));
  *inputs.plan.mutable_schedule() = std::move(plan);
  return frozen;
}

absl::StatusOr<std::string> NoteOfFreezing(const FrozenSchedule& frozen, const Program& program,
                                           const PlanInputs& inputs) {
  WEFT_ASSIGN_OR_RETURN(const sim::Simulation simulation,
                        sim::Simulate(program, inputs.cluster, {.cost = inputs.cost}));
  return absl::StrFormat(
      "plan.schedule.freeze: the order comes from a simulated step of '%s'%s%s: %.6g s message-driven, %.6g s static",
      program.schedule(), frozen.without_collectives ? " whose stages have no collectives" : "",
      frozen.replicas_differ ? ", as the first data replica ran it (others ran it differently)" : "",
      frozen.message_driven_seconds, simulation.report.makespan_seconds());
}

absl::Status ChooseTransfers(PlanInputs& inputs, const StepCost& cost, std::vector<std::string>* notes) {
  if (inputs.plan.transfer_placement() != FASTEST) return absl::OkStatus();
  struct Choice {
    TransferPlacement placement;
    bool grouped;
    const char* name;
  };
  constexpr Choice kChoices[] = {{EARLY, false, "early"},
                                 {DEFERRED, false, "deferred"},
                                 {EARLY, true, "early in groups"},
                                 {DEFERRED, true, "deferred in groups"}};
  const Choice* fastest = nullptr;
  double best = 0;
  std::vector<std::string> times;
  absl::Status first_error;
  for (const Choice& choice : kChoices) {
    PlanInputs tried = inputs;
    tried.plan.set_transfer_placement(choice.placement);
    tried.plan.set_group_transfers(choice.grouped);
    const absl::StatusOr<Evaluation> made = Evaluate({.inputs = tried, .cost = &cost});
    if (!made.ok()) {
      if (first_error.ok()) first_error = made.status();
      times.push_back(absl::StrCat(choice.name, " is refused"));
      continue;
    }
    const double seconds = made->report.iteration_seconds();
    times.push_back(absl::StrFormat("%s %.6g s", choice.name, seconds));
    if (fastest == nullptr || seconds < best) {
      fastest = &choice;
      best = seconds;
    }
  }
  if (fastest == nullptr) return first_error;
  inputs.plan.set_transfer_placement(fastest->placement);
  inputs.plan.set_group_transfers(fastest->grouped);
  if (notes != nullptr) {
    notes->push_back(absl::StrCat("plan.transfer_placement = FASTEST: transfers are ", fastest->name,
                                  ", the fastest in simulated steps: ", absl::StrJoin(times, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace weft::planner
