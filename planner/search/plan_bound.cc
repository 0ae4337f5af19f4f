#include "planner/search/plan_bound.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>

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

int64_t BackwardOf(const LayerCosts& costs, const ScheduleShape& shape) {
  const int64_t halves = costs.backward_input + costs.backward_weight;
  if (!shape.split_backward) return costs.backward;
  return shape.whole_backward ? std::min(costs.backward, halves) : halves;
}

// Returns the time of the part of a backward that the previous stage waits for.
int64_t InputOf(const LayerCosts& costs, const ScheduleShape& shape) {
  return shape.split_backward ? std::min(costs.backward_input, costs.backward) : costs.backward;
}

// Returns the bytes that a microbatch keeps at least from its forward to the end of its backward. Bytes that are freed
// after the input half are not counted at all.
int64_t SavedOf(const LayerCosts& costs, const ScheduleShape& shape) {
  if (!shape.split_backward) return costs.saved_bytes;
  return shape.whole_backward ? std::min(costs.saved_bytes, costs.half_saved_bytes) : costs.half_saved_bytes;
}

// Returns the bytes that a backward, or its input half, needs at least while it runs.
int64_t WorkspaceOf(const LayerCosts& costs, const ScheduleShape& shape) {
  if (!shape.split_backward) return costs.workspace_bytes;
  return shape.whole_backward ? std::min(costs.workspace_bytes, costs.half_workspace_bytes)
                              : costs.half_workspace_bytes;
}

int64_t Divided(int64_t value, int64_t by, bool divides) { return divides ? value / by : value; }

// True if gradients are sharded over replicas.
bool IsSharded(const BoundInputs& in) { return in.plan.zero().stage() >= 2 && ReplicasThatShare(in.plan) > 1; }

// True if the stages of a replica have several ranks, which wait for collectives inside layers.
bool StagesHaveCollectives(const Plan& plan) {
  return MeshRanks(plan.mesh()) > AxisSize(plan.mesh(), "pipe") * AxisSize(plan.mesh(), "data");
}

// Returns the bytes of an element of a gradient that accumulates.
double GradientElementBytes(const Plan& plan) {
  const DType type = plan.accumulation() == EXACT ? EXACT192 : plan.precision().grads();
  return static_cast<double>(std::max<int64_t>(1, DTypeBytes(type)));
}

std::vector<LayerCosts> StagesOf(const BoundInputs& in) {
  std::vector<LayerCosts> stages;
  int32_t layer = 0;
  for (const int32_t layers : in.layers_per_stage) {
    stages.push_back(in.profile.CostsOf(layer, layer + layers, IsSharded(in)));
    layer += layers;
  }
  return stages;
}

// The inputs, and the costs of all stages, on the device of each pipe rank.
class Ranks {
 public:
  explicit Ranks(const BoundInputs& in) {
    if (in.devices.empty()) inputs_.push_back(in);
    for (const RankDevice& device : in.devices) {
      inputs_.push_back({.profile = *device.profile,
                         .recomputed = device.recomputed,
                         .shape = in.shape,
                         .layers_per_stage = in.layers_per_stage,
                         .plan = in.plan,
                         .network = in.network,
                         .sums_after_backward = in.sums_after_backward,
                         .workspace_as_planned = in.workspace_as_planned,
                         .gathered_share = in.gathered_share,
                         .memory_bytes_per_second = device.memory_bytes_per_second,
                         .capacity = device.capacity});
    }
    for (const BoundInputs& inputs : inputs_) stages_.push_back(StagesOf(inputs));
  }

  const BoundInputs& In(int rank) const { return inputs_.size() == 1 ? inputs_[0] : inputs_[rank]; }
  const std::vector<LayerCosts>& Stages(int rank) const { return stages_.size() == 1 ? stages_[0] : stages_[rank]; }

 private:
  std::vector<BoundInputs> inputs_;
  std::vector<std::vector<LayerCosts>> stages_;
};

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

// The difference that recomputing layers of a stage makes.
struct Recomputed {
  // By how much a microbatch keeps less.
  int64_t saved_bytes = 0;
  int64_t saved_gradient_bytes = 0;
  // By how much a backward takes longer: all of it as the schedule runs it, a whole one, and an input half.
  int64_t again = 0;
  int64_t again_whole = 0;
  int64_t again_input = 0;
};
constexpr std::array kFreed = {&Recomputed::saved_bytes, &Recomputed::saved_gradient_bytes};
constexpr std::array kAgain = {&Recomputed::again, &Recomputed::again_whole, &Recomputed::again_input};

// The layers of one run in one stage, which a rank with recompute FIT may recompute.
struct RecomputedRun {
  int stage = 0;
  int32_t layers = 0;
  Recomputed change = {};
  // Bytes that a backward of these layers needs while it runs, if they are recomputed.
  int64_t workspace_bytes = 0;
  // Microbatches that run through the stage.
  int64_t microbatches = 0;
};

Recomputed ChangeOf(const LayerCosts& none, const LayerCosts& all, const ScheduleShape& shape) {
  return {.saved_bytes = SavedOf(none, shape) - SavedOf(all, shape),
          .saved_gradient_bytes = none.saved_gradient_bytes - all.saved_gradient_bytes,
          .again = std::max<int64_t>(0, BackwardOf(all, shape) - BackwardOf(none, shape)),
          .again_whole = std::max<int64_t>(0, all.backward - none.backward),
          .again_input = std::max<int64_t>(0, all.backward_input - none.backward_input)};
}

// The runs of the layers from `begin` to `end`, which are stage `stage`.
std::vector<RecomputedRun> RunsOfStage(const BoundInputs& in, int stage, int32_t begin, int32_t end) {
  std::vector<RecomputedRun> runs;
  const auto change = [&](int32_t from, int32_t to, int64_t* workspace) {
    const LayerCosts all = in.recomputed->CostsOf(from, to, IsSharded(in));
    *workspace = in.workspace_as_planned ? WorkspaceOf(all, in.shape) : 0;
    return ChangeOf(in.profile.CostsOf(from, to, IsSharded(in)), all, in.shape);
  };
  for (const RunCosts& run : in.profile.runs) {
    const int32_t from = std::max(begin, run.run.first), to = std::min(end, run.run.first + run.run.layers);
    if (from >= to) continue;
    RecomputedRun& made = runs.emplace_back(RecomputedRun{.stage = stage, .layers = to - from});
    made.change = change(from, to, &made.workspace_bytes);
  }
  if (runs.size() < 2) return runs;
  // Joined runs may free more and take less than each of them. The first run counts the difference, so that no number
  // of first layers frees more or takes less than the sum of their runs.
  int64_t unused = 0;
  Recomputed joined = change(begin, end, &unused);
  for (const RecomputedRun& run : runs) {
    for (const auto field : kFreed) joined.*field -= run.change.*field;
    for (const auto field : kAgain) joined.*field -= run.change.*field;
  }
  for (const auto field : kFreed) runs[0].change.*field += std::max<int64_t>(0, joined.*field);
  for (const auto field : kAgain) {
    int64_t less = std::max<int64_t>(0, -(joined.*field));
    for (RecomputedRun& run : runs) {
      const int64_t taken = std::min(less, run.change.*field);
      run.change.*field -= taken;
      less -= taken;
    }
  }
  return runs;
}

// For each pipe rank, the runs in the order of their layers, in which the rank recomputes them. Empty if the plan
// leaves no choice.
std::vector<std::vector<RecomputedRun>> RecomputedRunsOf(const BoundInputs& in, const Ranks& ranks) {
  const ScheduleShape& shape = in.shape;
  std::vector<std::vector<RecomputedRun>> runs(shape.held.size());
  // With more than two lanes, a rank's layers may also be recomputed because other ranks of their stages need it.
  if (in.recomputed == nullptr || shape.placement.size() > 2) return runs;
  int32_t begin = 0;
  for (int s = 0; s < shape.stages; ++s) {
    for (size_t lane = 0; lane < shape.placement.size(); ++lane) {
      const int rank = shape.placement[lane][s];
      std::vector<RecomputedRun> of_stage = RunsOfStage(ranks.In(rank), s, begin, begin + in.layers_per_stage[s]);
      std::vector<RecomputedRun>& of_rank = runs[rank];
      for (RecomputedRun& run : of_stage) run.microbatches = shape.microbatches[lane];
      of_rank.insert(of_rank.end(), of_stage.begin(), of_stage.end());
    }
    begin += in.layers_per_stage[s];
  }
  return runs;
}

// The bytes that a rank needs at least, and how many of its first layers it must recompute, in fractions of layers.
struct RankMemory {
  int64_t bytes = 0;
  double layers = 0;
  // Bytes that a recomputed layer frees on average, at the moment that needs most of them.
  int64_t freed = 0;
};

int64_t CountOf(const std::vector<std::pair<int, int64_t>>& held, int stage) {
  for (const auto& [of_stage, count] : held) {
    if (of_stage == stage) return count;
  }
  return 0;
}

// Returns the bytes of the weights that a rank has gathered for a forward and keeps at the moment, for its backward.
int64_t GatheredAt(const BoundInputs& in, const ScheduleShape::Held& moment, const std::vector<LayerCosts>& stages) {
  const bool keeps = in.workspace_as_planned && in.plan.zero().stage() >= 3 && ReplicasThatShare(in.plan) > 1 &&
                     in.plan.zero().reshard() == Zero::AFTER_BACKWARD;
  if (!keeps) return 0;
  int64_t bytes = 0;
  for (const auto& [stage, count] : moment.saved) {
    if (count == 0) continue;
    // The backward of an embedding needs no weights.
    const int64_t first = stage == 0 ? in.profile.CostsOf(0, 1, IsSharded(in)).parameter_bytes : 0;
    bytes += std::max<int64_t>(0, stages[stage].parameter_bytes - first);
  }
  return bytes;
}

// Returns the bytes that the rank needs at the moment, and how many of its first layers it must recompute for that.
// `stages` recompute nothing; `runs` are those of the rank.
RankMemory MemoryAt(const BoundInputs& in, const ScheduleShape::Held& moment, int64_t states,
                    const std::vector<LayerCosts>& stages, const std::vector<RecomputedRun>& runs) {
  const bool keeps = in.plan.offload().activation_layers() == 0;
  int64_t kept = states + GatheredAt(in, moment, stages);
  for (const auto& [stage, count] : moment.saved) kept += keeps ? count * SavedOf(stages[stage], in.shape) : 0;
  for (const auto& [stage, count] : moment.saved_gradients) kept += count * stages[stage].saved_gradient_bytes;
  int64_t workspace = in.workspace_as_planned ? WorkspaceOf(stages[moment.stage], in.shape) : 0;
  RankMemory memory{.bytes = kept + workspace};
  bool fits = memory.bytes <= in.capacity;
  int64_t all_layers = 0, all_freed = 0;
  for (const RecomputedRun& run : runs) {
    if (run.stage == moment.stage) workspace = std::max(workspace, run.workspace_bytes);
    const int64_t freed = (keeps ? CountOf(moment.saved, run.stage) * run.change.saved_bytes : 0) +
                          CountOf(moment.saved_gradients, run.stage) * run.change.saved_gradient_bytes;
    const int64_t over = kept + workspace - in.capacity;
    kept -= freed;
    all_layers += run.layers;
    all_freed += freed;
    memory.bytes = std::min(memory.bytes, kept + workspace);
    if (fits) continue;
    fits = freed >= over;
    memory.layers += run.layers * (fits ? static_cast<double>(over) / static_cast<double>(freed) : 1.0);
  }
  memory.freed = all_freed / std::max<int64_t>(1, all_layers);
  return memory;
}

RankMemory MemoryOf(const BoundInputs& in, int64_t states, const std::vector<ScheduleShape::Held>& held,
                    const std::vector<LayerCosts>& stages, const std::vector<RecomputedRun>& runs) {
  RankMemory memory{.bytes = states};
  for (const ScheduleShape::Held& moment : held) {
    const RankMemory at = MemoryAt(in, moment, states, stages, runs);
    memory.bytes = std::max(memory.bytes, at.bytes);
    if (at.layers > memory.layers || memory.freed == 0) memory.freed = at.freed;
    memory.layers = std::max(memory.layers, at.layers);
  }
  return memory;
}

// Calls visit(run, share) for each run of which a rank recomputes a share, if it recomputes its first `layers`.
template <typename Visit>
void ForEachRecomputed(const std::vector<RecomputedRun>& runs, double layers, const Visit& visit) {
  for (const RecomputedRun& run : runs) {
    if (layers <= 0) return;
    visit(run, std::min(1.0, layers / run.layers));
    layers -= run.layers;
  }
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

ScheduleShape ShapeOf(const PipelineSchedule& schedule, bool frees_between_halves) {
  ScheduleShape shape{.stages = schedule.stages, .placement = schedule.placement};
  shape.microbatches.resize(schedule.lanes);
  for (const std::vector<Slot>& order : schedule.order) {
    std::vector<ScheduleShape::Held>& held = shape.held.emplace_back();
    std::map<int, int64_t>& paired = shape.paired_forwards.emplace_back();
    std::map<int, int64_t> saved, gradients;
    // Microbatches in `saved` and `gradients` together, and the most so far.
    int64_t pairs = 0, most = 0;
    for (const Slot& slot : order) {
      if (slot.kind == SlotKind::kForward) {
        saved[slot.stage] += slot.width;
        pairs += slot.width;
        if (slot.paired) ++paired[slot.stage];
        if (slot.stage == 0) shape.microbatches[slot.lane] += slot.width;
        continue;
      }
      shape.split_backward |= slot.kind == SlotKind::kBackwardInput;
      shape.whole_backward |= slot.kind == SlotKind::kBackward;
      if (slot.kind == SlotKind::kBackwardInput) {
        ++gradients[slot.stage];
        ++pairs;
      }
      if (slot.kind != SlotKind::kBackwardWeight && pairs >= most) {
        if (pairs > most) held.clear();
        most = pairs;
        ScheduleShape::Held moment{slot.stage, {saved.begin(), saved.end()}, {gradients.begin(), gradients.end()}};
        if (held.size() < kMaxMoments && std::find(held.begin(), held.end(), moment) == held.end()) {
          held.push_back(std::move(moment));
        }
      }
      if (slot.kind == SlotKind::kBackwardWeight) {
        --gradients[slot.stage];
        --pairs;
      }
      const SlotKind last = !shape.split_backward || slot.kind == SlotKind::kBackward ? SlotKind::kBackward
                            : frees_between_halves                                    ? SlotKind::kBackwardInput
                                                                                      : SlotKind::kBackwardWeight;
      if (slot.kind == last) {
        --saved[slot.stage];
        --pairs;
      }
    }
  }
  return shape;
}

PlanBound BoundOf(const BoundInputs& in) {
  const ScheduleShape& shape = in.shape;
  const int64_t data = AxisSize(in.plan.mesh(), "data"), group = ReplicasThatShare(in.plan);
  const int zero = in.plan.zero().stage();
  const double reduced = MessageShare(in.plan);
  std::vector<RankLoad> ranks(shape.held.size());
  const Ranks on(in);
  const std::vector<std::vector<RecomputedRun>> runs = RecomputedRunsOf(in, on);
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
    for (const auto& [stage, count] : shape.paired_forwards[p])
      ranks[p].work -= count * on.Stages(static_cast<int>(p))[stage].forward;
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
    const RankMemory memory = MemoryOf(inputs, load.states, shape.held[p], on.Stages(static_cast<int>(p)), runs[p]);
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
