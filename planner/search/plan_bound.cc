#include "planner/search/plan_bound.h"

#include <algorithm>
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
// plans are simulated depends on it. Chosen by plans of GPT-3 175B on 1024 A100 (docs/planning.md).
constexpr double kExposedShare = 0.25;

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

// What a pipe rank does in an iteration, in picoseconds, and holds, in bytes.
struct RankLoad {
  int64_t fill = kFar;
  int64_t drain = kFar;
  int64_t work = 0;
  int64_t weight_halves = 0;
  // The optimizer step, as it is estimated and at least.
  int64_t step = 0;
  int64_t least_step = 0;
  // Bytes of weights that all microbatches gather, and of gradients that they scatter, over the replicas.
  double gathered = 0;
  double scattered = 0;
  // Additional work if all layers are recomputed.
  int64_t again = 0;
  // Parameters, gradients, optimizer states; and the gradients alone.
  int64_t states = 0;
  int64_t gradients = 0;
  // kFirst, kLast: the rank holds the first stage, the last one.
  int ends = 0;
  int stages = 0;
};
constexpr int kFirst = 1, kLast = 2, kBothEnds = kFirst | kLast;

int64_t BackwardOf(const LayerCosts& costs, const ScheduleShape& shape) {
  const int64_t halves = costs.backward_input + costs.backward_weight;
  if (!shape.split_backward) return costs.backward;
  return shape.whole_backward ? std::min(costs.backward, halves) : halves;
}

// The part of a backward that the stage before waits for.
int64_t InputOf(const LayerCosts& costs, const ScheduleShape& shape) {
  return shape.split_backward ? std::min(costs.backward_input, costs.backward) : costs.backward;
}

// What a microbatch keeps at least from its forward to the end of its backward. What is freed after an input half is
// not counted at all.
int64_t SavedOf(const LayerCosts& costs, const ScheduleShape& shape) {
  return shape.split_backward ? std::min(costs.saved_bytes, costs.half_saved_bytes) : costs.saved_bytes;
}

// What a backward, or the input half of one, needs at least while it runs.
int64_t WorkspaceOf(const LayerCosts& costs, const ScheduleShape& shape) {
  if (!shape.split_backward) return costs.workspace_bytes;
  return shape.whole_backward ? std::min(costs.workspace_bytes, costs.half_workspace_bytes)
                              : costs.half_workspace_bytes;
}

int64_t Divided(int64_t value, int64_t by, bool divides) { return divides ? value / by : value; }

// True if gradients are sharded over replicas.
bool IsSharded(const BoundInputs& in) { return in.plan.zero().stage() >= 2 && ReplicasThatShare(in.plan) > 1; }

// Bytes of an element of a gradient that accumulates.
double GradientElementBytes(const Plan& plan) {
  const DType type = plan.accumulation() == EXACT ? EXACT192 : plan.precision().grads();
  return static_cast<double>(std::max<int64_t>(1, DTypeBytes(type)));
}

std::vector<LayerCosts> StagesOf(const BoundInputs& in, const BlockProfile& profile) {
  std::vector<LayerCosts> stages;
  int32_t layer = 0;
  for (const int32_t layers : in.layers_per_stage) {
    stages.push_back(profile.CostsOf(layer, layer + layers, IsSharded(in)));
    // Written in the type that computes.
    if (in.whole_gradients) {
      const double share =
          static_cast<double>(DTypeBytes(in.plan.precision().compute())) / GradientElementBytes(in.plan);
      const double whole = share * static_cast<double>(profile.GradientsOfTwoLayers(layer, layer + layers));
      for (int64_t* workspace : {&stages.back().workspace_bytes, &stages.back().half_workspace_bytes}) {
        *workspace = std::max(*workspace, static_cast<int64_t>(whole));
      }
    }
    layer += layers;
  }
  return stages;
}

// The bytes of a gradient's message, relative to the gradient's own, in the narrowest type that could be meant.
double MessageShare(const Plan& plan) {
  return std::min(1.0, static_cast<double>(DTypeBytes(plan.precision().reduce())) / GradientElementBytes(plan));
}

// Picoseconds in which the optimizer reads and writes its states once, which it does in any case. Its kernels take
// longer, but how much longer depends on all tensors of the rank together.
int64_t LeastStep(const BoundInputs& in, const LayerCosts& costs) {
  if (!(in.memory_bytes_per_second > 0) || in.plan.offload().optimizer()) return 0;
  const int64_t bytes = 2 * Divided(costs.optimizer_bytes, ReplicasThatShare(in.plan), in.plan.zero().stage() >= 1);
  return static_cast<int64_t>(1e12 * static_cast<double>(bytes) / in.memory_bytes_per_second);
}

// Picoseconds from the last backward of stage 0 to the next forward of its rank, which takes `step` for the optimizer.
int64_t EndOfStep(const BoundInputs& in, const LayerCosts& stage, int64_t step) {
  const int zero = in.plan.zero().stage();
  const bool shares_all = ReplicasThatShare(in.plan) == AxisSize(in.plan.mesh(), "data");
  if (!in.sums_after_backward || zero > 1 || !shares_all || in.shape.placement.size() > 1) return step;
  const double bytes = MessageShare(in.plan) * static_cast<double>(stage.gradient_bytes);
  return step + static_cast<int64_t>(in.network.sum_ps_per_byte * bytes * (zero == 1 ? 0.5 : 1));
}

// Bytes of a moment: those that are kept if layers are recomputed or not, and all others.
struct MomentBytes {
  int64_t kept = 0;
  int64_t others = 0;
};

MomentBytes BytesOf(const BoundInputs& in, const ScheduleShape::Held& moment, const std::vector<LayerCosts>& stages) {
  const bool keeps = in.plan.offload().activation_layers() == 0;
  MomentBytes bytes{.others = in.workspace_as_planned ? WorkspaceOf(stages[moment.stage], in.shape) : 0};
  if (keeps) {
    for (const auto& [stage, count] : moment.saved) bytes.kept += count * SavedOf(stages[stage], in.shape);
  }
  for (const auto& [stage, count] : moment.saved_gradients) bytes.others += count * stages[stage].saved_gradient_bytes;
  return bytes;
}

// What a rank needs at least, and the least share of its layers that it must recompute.
struct RankMemory {
  int64_t bytes = 0;
  double share = 0;
};

// `stages` recompute nothing and `recomputed` everything that can be; both are the same if the plan leaves no choice.
RankMemory MemoryOf(const BoundInputs& in, int64_t states, const std::vector<ScheduleShape::Held>& held,
                    const std::vector<LayerCosts>& stages, const std::vector<LayerCosts>& recomputed) {
  RankMemory memory{.bytes = states};
  int64_t most = states;
  for (const ScheduleShape::Held& moment : held) {
    const MomentBytes none = BytesOf(in, moment, stages), all = BytesOf(in, moment, recomputed);
    most = std::max(most, states + none.kept + none.others);
    memory.bytes = std::max(memory.bytes, states + std::min(none.kept + none.others, all.kept + all.others));
    // If something is recomputed, the workspace is that of recomputing; only what is kept shrinks with the share.
    const int64_t over = states + all.others + none.kept - in.capacity;
    if (over > 0 && none.kept > all.kept) {
      memory.share = std::max(memory.share, static_cast<double>(over) / static_cast<double>(none.kept - all.kept));
    }
  }
  memory.share = most <= in.capacity ? 0 : std::min(memory.share, 1.0);
  return memory;
}

}  // namespace

int64_t ReplicasThatShare(const Plan& plan) {
  return plan.zero().group() > 0 ? plan.zero().group() : AxisSize(plan.mesh(), "data");
}

ScheduleShape ShapeOf(const PipelineSchedule& schedule, bool frees_between_halves) {
  ScheduleShape shape{.stages = schedule.stages, .placement = schedule.placement};
  shape.microbatches.resize(schedule.lanes);
  for (const std::vector<Slot>& order : schedule.order) {
    std::vector<ScheduleShape::Held>& held = shape.held.emplace_back();
    std::map<int, int64_t> saved, gradients;
    // All pairs, and the most so far.
    int64_t pairs = 0, most = 0;
    for (const Slot& slot : order) {
      if (slot.kind == SlotKind::kForward) {
        saved[slot.stage] += slot.width;
        pairs += slot.width;
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
  const std::vector<LayerCosts> stages = StagesOf(in, in.profile);
  const std::vector<LayerCosts> recomputed = in.recomputed == nullptr ? stages : StagesOf(in, *in.recomputed);
  // Ranks and stages of earlier lanes. Lanes that put a stage on the same rank share its states.
  std::set<std::pair<int, int>> placed;
  for (size_t lane = 0; lane < shape.placement.size(); ++lane) {
    int64_t fill = 0, drain = 0;
    const int64_t microbatches = shape.microbatches[lane];
    for (int s = 0; s < shape.stages; ++s) {
      const int rank = shape.placement[lane][s];
      RankLoad& load = ranks[rank];
      const LayerCosts& costs = stages[s];
      if (s > 0 && shape.placement[lane][s - 1] != rank) {
        fill += in.network.forward_message;
        drain += in.network.backward_message;
      }
      load.ends |= (s == 0 ? kFirst : 0) | (s + 1 == shape.stages ? kLast : 0);
      if (placed.emplace(rank, s).second) {
        ++load.stages;
        load.least_step += LeastStep(in, costs);
        load.step += Divided(costs.step, group, zero >= 1);
        load.states += Divided(costs.parameter_bytes, group, zero >= 3);
        if (!in.plan.offload().optimizer()) load.states += Divided(costs.optimizer_bytes, group, zero >= 1);
        const int64_t gradients = Divided(costs.gradient_bytes, group, zero >= 2);
        load.gradients += gradients;
        load.states += gradients;
      }
      if (microbatches == 0) continue;
      const auto passes = static_cast<double>(microbatches);
      const double gathers = in.plan.zero().reshard() == Zero::AFTER_FORWARD ? 2 : 1;
      const bool gathered = zero >= 3 && group == data && in.plan.zero().reshard() <= Zero::AFTER_BACKWARD;
      if (gathered) {
        load.gathered += passes * gathers * in.gathered_share * static_cast<double>(costs.parameter_bytes);
      }
      if (zero >= 2 && group == data) load.scattered += passes * static_cast<double>(costs.gradient_bytes) * reduced;
      load.fill = std::min(load.fill, fill);
      load.drain = std::min(load.drain, drain);
      load.work += microbatches * (costs.forward + BackwardOf(costs, shape));
      load.again += microbatches * (BackwardOf(recomputed[s], shape) - BackwardOf(costs, shape));
      if (shape.split_backward) load.weight_halves += microbatches * costs.backward_weight;
      fill += costs.forward;
      drain += InputOf(costs, shape);
    }
  }
  for (RankLoad& load : ranks) {
    const LayerCosts& shared = in.profile.saved_by_joining;
    // A rank has parts of the optimizer step once, not once for each stage.
    load.step = std::max<int64_t>(0, load.step - std::max(0, load.stages - 1) * shared.step);
    if (load.ends != kBothEnds || shape.stages == 1) continue;
    // The first and the last layer may share a parameter.
    load.gradients = std::max<int64_t>(0, load.gradients - shared.gradient_bytes);
    load.least_step = std::max<int64_t>(0, load.least_step - LeastStep(in, shared));
    load.states =
        std::max<int64_t>(0, load.states - shared.parameter_bytes - shared.optimizer_bytes - shared.gradient_bytes);
  }
  PlanBound bound;
  int64_t least = 0, flow = 0, sync = 0;
  const int first = shape.placement[0][0];
  const double ps_per_byte = in.network.sum_ps_per_byte;
  const int64_t end = EndOfStep(in, stages[0], ranks[first].least_step);
  bound.recomputed_share.resize(in.recomputed == nullptr ? 0 : ranks.size());
  for (size_t p = 0; p < ranks.size(); ++p) {
    const RankLoad& load = ranks[p];
    if (load.fill == kFar) continue;
    const RankMemory memory = MemoryOf(in, load.states, shape.held[p], stages, recomputed);
    const double share = memory.share;
    const int64_t again = static_cast<int64_t>(share * static_cast<double>(load.again));
    if (in.recomputed != nullptr) bound.recomputed_share[p] = share;
    bound.least_bytes = std::max(bound.least_bytes, memory.bytes);
    const int64_t work = load.work + again;
    const int64_t through = load.fill + work - load.weight_halves + load.drain;
    const auto streams = static_cast<int64_t>(ps_per_byte / 2 * std::max(load.gathered, load.scattered));
    least = std::max({least, through + end, work + load.least_step, streams});
    const auto exposed = static_cast<int64_t>(kExposedShare * ps_per_byte / 2 * (load.gathered + load.scattered));
    flow = std::max({flow, through + load.step + exposed, load.fill + work + load.step + exposed, streams});
    if (zero <= 1) sync = std::max(sync, static_cast<int64_t>(ps_per_byte * static_cast<double>(load.gradients)));
  }
  bound.least_seconds = ToSeconds(Time{least});
  bound.estimated_seconds = ToSeconds(Time{flow + sync});
  return bound;
}

bool PlanBound::recomputes() const {
  return std::any_of(recomputed_share.begin(), recomputed_share.end(), [](double share) { return share > 0; });
}

absl::Status TightenBound(const BoundInputs& in, const PipelineSchedule& schedule, int microbatches, PlanBound* bound) {
  const std::vector<LayerCosts> stages = StagesOf(in, in.profile);
  const std::vector<LayerCosts> recomputed = in.recomputed == nullptr ? stages : StagesOf(in, *in.recomputed);
  std::vector<StageCosts> costs;
  int64_t step = 0;
  for (int s = 0; s < in.shape.stages; ++s) {
    // A stage of several lanes may be recomputed on one of its ranks only.
    double share = bound->recomputed_share.empty() ? 0 : 1;
    for (const std::vector<int>& lane : in.shape.placement) {
      if (!bound->recomputed_share.empty()) share = std::min(share, bound->recomputed_share[lane[s]]);
    }
    const auto between = [&](int64_t none, int64_t all) {
      return none + static_cast<int64_t>(share * static_cast<double>(std::max<int64_t>(0, all - none)));
    };
    const LayerCosts &none = stages[s], &all = recomputed[s];
    costs.push_back({none.forward, between(none.backward, all.backward),
                     between(none.backward_input, all.backward_input), none.backward_weight});
    if (s == 0) step = LeastStep(in, none);
  }
  const int64_t p2p = std::min(in.network.forward_message, in.network.backward_message);
  absl::StatusOr<ScheduleTiming> timing = TimeSchedule(schedule, microbatches, std::move(costs), p2p);
  if (!timing.ok()) return timing.status();
  // The ends of the last backward of stage 0, whose ranks then update their weights, and of everything.
  int64_t drained = 0;
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
      const Slot& slot = schedule.order[rank][i];
      if (slot.stage == 0 && slot.kind != SlotKind::kForward) drained = std::max(drained, timing->end[rank][i]);
    }
  }
  const double least = ToSeconds(Time{drained + EndOfStep(in, stages[0], step)});
  const double slack = bound->estimated_seconds - bound->least_seconds;
  bound->least_seconds = std::max(bound->least_seconds, least);
  bound->estimated_seconds = std::max(bound->estimated_seconds, least + std::max(0.0, slack));
  return absl::OkStatus();
}

}  // namespace weft::planner
