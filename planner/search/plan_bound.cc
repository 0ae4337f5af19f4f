#include "planner/search/plan_bound.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "planner/search/rank_memory.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"
#include "schedules/pipeline/timing.h"

namespace weft::planner {
namespace {

// The part of the gathers and reduce-scatters of ZeRO 2 and 3 that estimates count as exposed. Only the order in which
// plans are simulated depends on it. Chosen from plans of GPT-3 175B on 1024 A100 (docs/planning.md).
constexpr double kExposedShare = 0.25;

constexpr std::array kStageTimes = {&StageCosts::forward, &StageCosts::backward, &StageCosts::backward_input,
                                    &StageCosts::backward_weight};

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

// The times of a pipe rank in an iteration, in picoseconds, and what it holds, in bytes.
struct RankLoad {
  int64_t fill = kFar;
  int64_t drain = kFar;
  int64_t work = 0;
  int64_t weight_halves = 0;
  // The optimizer step: an estimate, and a lower bound.
  int64_t step = 0;
  int64_t least_step = 0;
  // Bytes of weights that all microbatches gather, and of gradients that they scatter, over the replicas.
  double gathered = 0;
  double scattered = 0;
  // Bytes of parameters, gradients and optimizer states together, and of gradients alone.
  int64_t states = 0;
  int64_t gradients = 0;
  // Bits: kFirst if the rank holds the first stage, kLast if it holds the last one.
  int ends = 0;
  int stages = 0;
};
constexpr int kFirst = 1, kLast = 2, kBothEnds = kFirst | kLast;

// Returns the time of the part of a backward that the previous stage waits for.
int64_t InputOf(const LayerCosts& costs, const ScheduleShape& shape) {
  return shape.split_backward ? std::min(costs.backward_input, costs.backward) : costs.backward;
}

int64_t Divided(int64_t value, int64_t by, bool divides) { return divides ? value / by : value; }

// True if the stages of a replica have several ranks, which wait for collectives inside layers.
bool StagesHaveCollectives(const Plan& plan) {
  return MeshRanks(plan.mesh()) > AxisSize(plan.mesh(), "pipe") * AxisSize(plan.mesh(), "data");
}

// Returns the bytes of an element of a gradient that accumulates.
double GradientElementBytes(const Plan& plan) {
  const DType type = plan.accumulation() == EXACT ? EXACT192 : plan.precision().grads();
  return static_cast<double>(std::max<int64_t>(1, DTypeBytes(type)));
}

// Returns the bytes of a gradient's message divided by the bytes of the gradient, at most 1.
double MessageShare(const Plan& plan) {
  return std::min(1.0, static_cast<double>(DTypeBytes(plan.precision().reduce())) / GradientElementBytes(plan));
}

// Bytes of weights that a microbatch gathers in a stage, in its forward and again in its backward. The first layer's
// backward needs no weights if it has only an embedding: no gradient goes beyond the layer.
int64_t GatheredBytes(const BoundInputs& in, int stage, const LayerCosts& costs) {
  if (in.plan.zero().reshard() != Zero::AFTER_FORWARD || in.plan.overlap().gathered_cache_bytes() > 0) {
    return costs.parameter_bytes;
  }
  const int64_t first = stage == 0 ? in.profile.CostsOf(0, 1, IsSharded(in)).parameter_bytes : 0;
  return costs.parameter_bytes + std::max<int64_t>(0, costs.parameter_bytes - first);
}

// Returns a lower bound of the optimizer step: the picoseconds in which it reads and writes its states once. Its
// kernels take longer, but how much longer depends on all tensors of the rank together.
int64_t LeastStep(const BoundInputs& in, const LayerCosts& costs) {
  if (!(in.memory_bytes_per_second > 0) || in.plan.offload().optimizer()) return 0;
  const int64_t bytes = 2 * Divided(costs.optimizer_bytes, ReplicasThatShare(in.plan), in.plan.zero().stage() >= 1);
  return static_cast<int64_t>(1e12 * static_cast<double>(bytes) / in.memory_bytes_per_second);
}

// Returns the picoseconds from the last backward of stage 0 to the next forward of its rank, whose optimizer step takes
// `step`.
int64_t EndOfStep(const BoundInputs& in, const LayerCosts& stage, int64_t step) {
  const int zero = in.plan.zero().stage();
  const bool shares_all = ReplicasThatShare(in.plan) == AxisSize(in.plan.mesh(), "data");
  if (!in.sums_after_backward || zero > 1 || !shares_all || in.shape.placement.size() > 1) return step;
  const double bytes = MessageShare(in.plan) * static_cast<double>(stage.gradient_bytes);
  const double ps_per_byte = zero == 1 ? in.network.scatter_ps_per_byte : in.network.sum_ps_per_byte;
  return step + static_cast<int64_t>(ps_per_byte * bytes);
}

}  // namespace

int64_t ReplicasThatShare(const Plan& plan) {
  return plan.zero().group() > 0 ? plan.zero().group() : AxisSize(plan.mesh(), "data");
}

int64_t StateBytes(const Plan& plan, const LayerCosts& costs) {
  const int64_t group = ReplicasThatShare(plan);
  const int zero = plan.zero().stage();
  const int64_t optimizer = plan.offload().optimizer() ? 0 : Divided(costs.optimizer_bytes, group, zero >= 1);
  int64_t gradients = Divided(costs.gradient_bytes, group, zero >= 2);
  // Exact sums are rounded to a second buffer, which with ZeRO 1 lasts only until the optimizer step.
  if (plan.accumulation() == EXACT && zero == 1) {
    const int64_t exact = DTypeBytes(EXACT192);
    gradients = gradients / (exact + DTypeBytes(plan.precision().grads())) * exact;
  }
  return Divided(costs.parameter_bytes, group, zero >= 3) + optimizer + gradients;
}

PlanBound BoundOf(const BoundInputs& in) {
  const ScheduleShape& shape = in.shape;
  const int64_t data = AxisSize(in.plan.mesh(), "data"), group = ReplicasThatShare(in.plan);
  const int zero = in.plan.zero().stage();
  const double reduced = MessageShare(in.plan);
  std::vector<RankLoad> ranks(shape.held.size());
  const Ranks on(in);
  const std::vector<std::vector<RecomputedRun>> runs = RecomputedRunsOf(in, on);
  const std::vector<int64_t> tiled = TiledBytesOf(in, on);
  // Ranks and stages of earlier lanes. Lanes that put a stage on the same rank share its states.
  std::set<std::pair<int, int>> placed;
  for (size_t lane = 0; lane < shape.placement.size(); ++lane) {
    int64_t fill = 0, drain = 0;
    const int64_t microbatches = shape.microbatches[lane];
    for (int s = 0; s < shape.stages; ++s) {
      const int rank = shape.placement[lane][s];
      RankLoad& load = ranks[rank];
      const LayerCosts& costs = on.Stages(rank)[s];
      if (s > 0 && shape.placement[lane][s - 1] != rank) {
        fill += in.network.forward_message;
        drain += in.network.backward_message;
      }
      load.ends |= (s == 0 ? kFirst : 0) | (s + 1 == shape.stages ? kLast : 0);
      if (placed.emplace(rank, s).second) {
        ++load.stages;
        load.least_step += LeastStep(on.In(rank), costs);
        // Weights that ZeRO 3 gathers are cast for every product instead.
        if (microbatches > 0 && zero < 3) load.work += costs.first_forward;
        load.step += Divided(costs.step, group, zero >= 1);
        load.states += StateBytes(in.plan, costs);
        // Without a microbatch, no rank of the lane keeps the weights that forwards read.
        if (microbatches == 0) load.states -= Divided(costs.parameter_bytes, group, zero >= 3);
        // Gathered weights that stay take more than the rank's own part of them.
        const bool whole =
            in.workspace_as_planned && in.plan.zero().reshard() == Zero::NEVER && zero >= 3 && microbatches > 0;
        if (whole) load.states += costs.parameter_bytes - Divided(costs.parameter_bytes, group, true);
        load.gradients += Divided(costs.gradient_bytes, group, zero >= 2);
      }
      if (microbatches == 0) continue;
      const auto passes = static_cast<double>(microbatches);
      const bool gathered = zero >= 3 && group == data && in.plan.zero().reshard() <= Zero::AFTER_BACKWARD;
      if (gathered) {
        load.gathered += passes * in.gathered_share * static_cast<double>(GatheredBytes(on.In(rank), s, costs));
      }
      if (zero >= 2 && group == data) load.scattered += passes * static_cast<double>(costs.gradient_bytes) * reduced;
      load.fill = std::min(load.fill, fill);
      load.drain = std::min(load.drain, drain);
      load.work += microbatches * (costs.forward + BackwardOf(costs, shape));
      if (shape.split_backward) load.weight_halves += microbatches * costs.backward_weight;
      fill += costs.forward;
      drain += InputOf(costs, shape);
    }
  }
  for (size_t p = 0; p < ranks.size() && StagesHaveCollectives(in.plan); ++p) {
    for (const auto& [stage, count] : shape.paired_forwards[p]) {
      const LayerCosts& costs = on.Stages(static_cast<int>(p))[stage];
      ranks[p].work -= count * costs.forward + costs.first_forward;
    }
  }
  for (size_t p = 0; p < ranks.size(); ++p) {
    RankLoad& load = ranks[p];
    const BoundInputs& inputs = on.In(static_cast<int>(p));
    const LayerCosts& shared = inputs.profile.saved_by_joining;
    // A rank runs some parts of the optimizer step once, not once for each stage.
    load.step = std::max<int64_t>(0, load.step - std::max(0, load.stages - 1) * shared.step);
    if (load.ends != kBothEnds || shape.stages == 1) continue;
    // The first and the last layer may share a parameter.
    load.gradients = std::max<int64_t>(0, load.gradients - shared.gradient_bytes);
    load.least_step = std::max<int64_t>(0, load.least_step - LeastStep(inputs, shared));
    load.states =
        std::max<int64_t>(0, load.states - shared.parameter_bytes - shared.optimizer_bytes - shared.gradient_bytes);
  }
  PlanBound bound;
  int64_t least = 0, flow = 0, sync = 0;
  const int first = shape.placement[0][0];
  int64_t least_step = ranks[first].least_step;
  for (const std::vector<int>& lane : shape.placement) least_step = std::min(least_step, ranks[lane[0]].least_step);
  const int64_t end = EndOfStep(in, on.Stages(first)[0], least_step);
  bound.recomputed_layers.resize(in.recomputed == nullptr ? 0 : ranks.size());
  bound.bytes_of_layer.resize(bound.recomputed_layers.size());
  for (size_t p = 0; p < ranks.size(); ++p) {
    const RankLoad& load = ranks[p];
    if (load.fill == kFar) continue;
    const BoundInputs& inputs = on.In(static_cast<int>(p));
    const MemoryNeed memory =
        MemoryOf(inputs, load.states - tiled[p], shape.held[p], on.Stages(static_cast<int>(p)), runs[p]);
    double again = 0;
    ForEachRecomputed(runs[p], memory.layers, [&](const RecomputedRun& run, double share) {
      again += share * static_cast<double>(run.microbatches) * static_cast<double>(run.change.again);
    });
    if (in.recomputed != nullptr) {
      bound.recomputed_layers[p] = memory.layers;
      bound.bytes_of_layer[p] = memory.freed;
    }
    bound.least_bytes = std::max(bound.least_bytes, memory.bytes);
    bound.fits &= memory.bytes <= inputs.capacity;
    const int64_t work = load.work + static_cast<int64_t>(again);
    const int64_t through = load.fill + work - load.weight_halves + load.drain;
    const double gathers = in.network.gather_ps_per_byte * load.gathered;
    const double scatters = in.network.scatter_ps_per_byte * load.scattered;
    const auto streams = static_cast<int64_t>(std::max(gathers, scatters));
    least = std::max({least, through + end, work + load.least_step, streams});
    const auto exposed = static_cast<int64_t>(kExposedShare * (gathers + scatters));
    flow = std::max({flow, through + load.step + exposed, load.fill + work + load.step + exposed, streams});
    // With ZeRO 1, gradients are scattered and weights, which the network moves like gradients, are gathered.
    const double sum =
        zero == 1 ? in.network.scatter_ps_per_byte + in.network.gather_ps_per_byte : in.network.sum_ps_per_byte;
    if (zero <= 1) sync = std::max(sync, static_cast<int64_t>(sum * static_cast<double>(load.gradients)));
  }
  bound.least_seconds = ToSeconds(Time{least});
  bound.estimated_seconds = ToSeconds(Time{flow + sync});
  return bound;
}

absl::Status TightenBound(const BoundInputs& in, const PipelineSchedule& schedule, int microbatches, PlanBound* bound) {
  const Ranks on(in);
  const std::vector<std::vector<RecomputedRun>> runs = RecomputedRunsOf(in, on);
  std::vector<StageCosts> costs;
  int64_t step = kFar;
  for (int s = 0; s < in.shape.stages; ++s) {
    // A stage of several lanes takes as long as on the fastest of its ranks. By how much backwards take longer: it may
    // be recomputed on one of them only.
    StageCosts least;
    for (size_t lane = 0; lane < in.shape.placement.size(); ++lane) {
      const int rank = in.shape.placement[lane][s];
      double whole = 0, input = 0;
      if (in.recomputed != nullptr) {
        ForEachRecomputed(runs[rank], bound->recomputed_layers[rank], [&](const RecomputedRun& run, double share) {
          if (run.stage != s) return;
          whole += share * static_cast<double>(run.change.again_whole);
          input += share * static_cast<double>(run.change.again_input);
        });
      }
      const LayerCosts& stage = on.Stages(rank)[s];
      const StageCosts here = {stage.forward, stage.backward + static_cast<int64_t>(whole),
                               stage.backward_input + static_cast<int64_t>(input), stage.backward_weight};
      if (s == 0) step = std::min(step, LeastStep(on.In(rank), stage));
      if (lane == 0) {
        least = here;
        continue;
      }
      for (const auto field : kStageTimes) least.*field = std::min(least.*field, here.*field);
    }
    costs.push_back(least);
  }
  const int64_t p2p = std::min(in.network.forward_message, in.network.backward_message);
  absl::StatusOr<ScheduleTiming> timing = TimeSchedule(schedule, microbatches, std::move(costs), p2p);
  if (!timing.ok()) return timing.status();
  // The end of the last backward of stage 0, whose rank then updates its weights.
  int64_t drained = 0;
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
      const Slot& slot = schedule.order[rank][i];
      if (slot.stage == 0 && slot.kind != SlotKind::kForward) drained = std::max(drained, timing->end[rank][i]);
    }
  }
  const double least = ToSeconds(Time{drained + EndOfStep(in, on.Stages(in.shape.placement[0][0])[0], step)});
  const double slack = bound->estimated_seconds - bound->least_seconds;
  bound->least_seconds = std::max(bound->least_seconds, least);
  bound->estimated_seconds = std::max(bound->estimated_seconds, least + std::max(0.0, slack));
  return absl::OkStatus();
}

}  // namespace weft::planner
