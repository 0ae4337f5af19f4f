#include "planner/evaluate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/lower_program.h"
#include "compiler/memory_fit.h"
#include "compiler/rank_kinds.h"
#include "compiler/rewrite/post_validation.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "schedules/collective/plan.h"
#include "simulator/runtime/runtime_memory.h"
#include "simulator/simulate.h"
#include "verifier/verify.h"

namespace weft::planner {
namespace {

std::vector<int64_t> RankBytes(const Program& program, const Runtime* runtime) {
  std::vector<int64_t> highest(AxisSize(program.mesh(), "pipe"));
  const auto add = [&](const Template& t, int64_t bytes) {
    int64_t& most = highest[PipeRankOf(t)];
    most = std::max(most, bytes);
  };
  if (runtime != nullptr) {
    const std::vector<int64_t> bytes = sim::BytesOfTemplatesUnder(program, *runtime);
    for (int i = 0; i < program.templates_size(); ++i) add(program.templates(i), bytes[i]);
    return highest;
  }
  for (const Program* part : {&program, &program.evaluation()}) {
    for (const Template& t : part->templates()) add(t, t.device_arena_bytes());
  }
  return highest;
}

absl::Status SimulateCandidate(const Candidate& candidate, Evaluation* made) {
  const PlanInputs& inputs = candidate.inputs;
  sim::SimulateOptions options;
  options.cost = inputs.cost;
  options.network = candidate.network;
  options.runtime = candidate.runtime;
  options.trace = candidate.trace;
  absl::StatusOr<sim::Simulation> timed = sim::Simulate(made->program, inputs.cluster, options);
  if (candidate.trace && absl::IsResourceExhausted(timed.status())) {
    made->trace = timed.status();
    options.trace = false;
    timed = sim::Simulate(made->program, inputs.cluster, options);
  }
  WEFT_RETURN_IF_ERROR(timed.status());
  made->report = std::move(timed->report);
  if (timed->trace) {
    made->trace = *std::move(timed->trace);
    made->as_run = std::move(timed->as_run);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(const Candidate& candidate) {
  const PlanInputs& inputs = candidate.inputs;
  StepCost own_cost;
  if (candidate.cost == nullptr) {
    WEFT_ASSIGN_OR_RETURN(own_cost, CostsOf(inputs));
  }
  Evaluation made;
  WEFT_ASSIGN_OR_RETURN(made.program, LowerPlan(inputs, candidate.cost == nullptr ? own_cost : *candidate.cost,
                                                candidate.evaluation, &made.layers_per_stage, /*notes=*/nullptr));
  if (candidate.post_validate && inputs.plan.post_validation()) {
    // The program of a plan with freeze gets its static order only later, but the state that post-validation keeps does
    // not depend on the order.
    if (inputs.plan.schedule().freeze()) made.program.set_compute_order(STATIC_ORDER);
    WEFT_RETURN_IF_ERROR(PostValidate(&made.program));
  }
  made.rank_bytes = RankBytes(made.program, candidate.runtime);
  made.fits = DeviceMemoryFits(made.program, inputs.cluster);
  const auto fullest = std::max_element(made.rank_bytes.begin(), made.rank_bytes.end());
  const bool too_large = fullest != made.rank_bytes.end() && *fullest > candidate.most_bytes;
  if (!candidate.simulate || too_large) return made;
  WEFT_RETURN_IF_ERROR(VerifyProgram(made.program, {.allow_unfit = true, .algorithms = KnownCollectives()}));
  WEFT_RETURN_IF_ERROR(SimulateCandidate(candidate, &made));
  return made;
}

int64_t PipeRankOf(const Template& t) {
  for (const Coordinate& pin : t.pins()) {
    if (pin.axis() == "pipe") return pin.index();
  }
  return 0;
}

int64_t UsableBytes(const Device& device) {
  return device.memory_bytes() > 0 ? device.memory_bytes() - device.reserved_bytes()
                                   : std::numeric_limits<int64_t>::max();
}

absl::StatusOr<std::vector<int64_t>> UsableBytesOfPipeRanks(const PlanInputs& inputs) {
  const Mesh& mesh = inputs.plan.mesh();
  WEFT_ASSIGN_OR_RETURN(const RankKinds kinds, KindsOfRanks(MeshRanks(mesh), inputs.cluster));
  std::vector<int64_t> usable = UsableOfPipeRanks(kinds, KindsOfPipelines(kinds, mesh));
  for (int64_t& bytes : usable) bytes = std::min(bytes, int64_t{1} << 60);
  return usable;
}

}  // namespace weft::planner
