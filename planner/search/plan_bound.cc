#include "planner/search/plan_bound.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "proto/util/mesh.h"
#include "proto/util/units.h"
#include "schedules/pipeline/timing.h"

namespace weft::planner {
namespace {

// The part of the gathers and reduce-scatters of ZeRO 2 and 3 that estimates count as exposed. Only the order in which
// plans are simulated depends on it. Chosen from plans of GPT-3 175B on 1024 A100 (docs/planning.md).
constexpr double kExposedShare = 0.25;

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
  // Additional work if all layers are recomputed.
  int64_t again = 0;
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
  return shape.split_backward ? std::min(costs.saved_bytes, costs.half_saved_bytes) : costs.saved_bytes;
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

// Returns the bytes of an element of a gradient that accumulates.
double GradientElementBytes(const Plan& plan) {
  const DType type = plan.accumulation() == EXACT ? EXACT192 : plan.precision().grads();
  return static_cast<double>(std::max<int64_t>(1, DTypeBytes(type)));
}

std::vector<LayerCosts> StagesOf(const BoundInputs& in, const BlockProfile& profile) {
  std::vector<LayerCosts> stages;
  int32_t layer = 0;
  for (const int32_t layers : in.layers_per_stage) {
    stages.push_back(profile.CostsOf(layer, layer + layers, IsSharded(in)));
    // The backward keeps these gradients in the type of the computation, and scatters them at its end.
    if (in.whole_gradients) {
      const double share =
          static_cast<double>(DTypeBytes(in.plan.precision().compute())) / GradientElementBytes(in.plan);
      const double whole = share * static_cast<double>(profile.GradientsOfBlocks(layer, layer + layers));
      for (int64_t* workspace : {&stages.back().workspace_bytes, &stages.back().half_workspace_bytes}) {
        *workspace = std::max(*workspace, static_cast<int64_t>(whole));
      }
    }
    layer += layers;
  }
  return stages;
}

// Costs of all stages on the device of each pipe rank.
class StagesOnRanks {
 public:
  // `in` is borrowed.
  explicit StagesOnRanks(const BoundInputs& in)
      : default_{&in.profile, in.recomputed, in.memory_bytes_per_second, in.capacity}, devices_(in.devices) {
    const auto add = [&](const RankDevice& device) {
      for (const BlockProfile* profile : {device.profile, device.recomputed}) {
        if (profile != nullptr && !stages_.contains(profile)) stages_[profile] = StagesOf(in, *profile);
      }
    };
    if (devices_.empty()) add(default_);
    for (const RankDevice& device : devices_) add(device);
  }

  const RankDevice& DeviceOf(size_t rank) const { return devices_.empty() ? default_ : devices_[rank]; }
  const std::vector<LayerCosts>& On(size_t rank) const { return stages_.at(DeviceOf(rank).profile); }
  // The same with all layers recomputed, if the plan leaves that open.
  const std::vector<LayerCosts>& RecomputedOn(size_t rank) const {
    const RankDevice& device = DeviceOf(rank);
    return stages_.at(device.recomputed == nullptr ? device.profile : device.recomputed);
  }

 private:
  const RankDevice default_;
  const std::vector<RankDevice>& devices_;
  std::map<const BlockProfile*, std::vector<LayerCosts>> stages_;
};

// Returns the bytes of a gradient's message divided by the bytes of the gradient, at most 1.
double MessageShare(const Plan& plan) {
  return std::min(1.0, static_cast<double>(DTypeBytes(plan.precision().reduce())) / GradientElementBytes(plan));
}

// Returns a lower bound of the optimizer step: the picoseconds in which it reads and writes its states once. Its
// kernels take longer, but how much longer depends on all tensors of the rank together.
int64_t LeastStep(const BoundInputs& in, const RankDevice& device, const LayerCosts& costs) {
  if (!(device.memory_bytes_per_second > 0) || in.plan.offload().optimizer()) return 0;
  const int64_t bytes = 2 * Divided(costs.optimizer_bytes, ReplicasThatShare(in.plan), in.plan.zero().stage() >= 1);
  return static_cast<int64_t>(1e12 * static_cast<double>(bytes) / device.memory_bytes_per_second);
}

// Returns the picoseconds from the last backward of stage 0 to the next forward of its rank, whose optimizer step takes
// `step`.
int64_t EndOfStep(const BoundInputs& in, const LayerCosts& stage, int64_t step) {
  const int zero = in.plan.zero().stage();
  const bool shares_all = ReplicasThatShare(in.plan) == AxisSize(in.plan.mesh(), "data");
  if (!in.sums_after_backward || zero > 1 || !shares_all || in.shape.placement.size() > 1) return step;
  const double bytes = MessageShare(in.plan) * static_cast<double>(stage.gradient_bytes);
  return step + static_cast<int64_t>(in.network.sum_ps_per_byte * bytes * (zero == 1 ? 0.5 : 1));
}

// Bytes that a rank holds at a moment: kept activations, and all others.
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

// The bytes that a rank needs at least, and the least share of its layers that it must recompute.
struct RankMemory {
  int64_t bytes = 0;
  double share = 0;
  // What recomputing all layers saves at the fullest moment.
  int64_t recomputable = 0;
};

// `stages` recompute nothing and `recomputed` everything that can be; both are the same if the plan leaves no choice.
RankMemory MemoryOf(const BoundInputs& in, int64_t states, int64_t capacity,
                    const std::vector<ScheduleShape::Held>& held, const std::vector<LayerCosts>& stages,
                    const std::vector<LayerCosts>& recomputed) {
  RankMemory memory{.bytes = states};
  int64_t most = states;
  for (const ScheduleShape::Held& moment : held) {
    const MomentBytes none = BytesOf(in, moment, stages), all = BytesOf(in, moment, recomputed);
    if (states + none.kept + none.others > most) memory.recomputable = none.kept - all.kept;
    most = std::max(most, states + none.kept + none.others);
    memory.bytes = std::max(memory.bytes, states + std::min(none.kept + none.others, all.kept + all.others));
    // If any layer is recomputed, the workspace is that of recomputing; only the kept activations shrink with the
    // share.
    const int64_t over = states + all.others + none.kept - capacity;
    if (over > 0 && none.kept > all.kept) {
      memory.share = std::max(memory.share, static_cast<double>(over) / static_cast<double>(none.kept - all.kept));
    }
  }
  memory.share = most <= capacity ? 0 : std::min(memory.share, 1.0);
  return memory;
}

// What the backwards of the stage with the layers from `begin` to `end` take longer if those in `chosen`, which are its
// first ones, are recomputed.
LayerCosts AgainOf(const BoundInputs& in, const RankDevice& device, int32_t begin, int32_t end,
                   const std::set<int32_t>& chosen) {
  const auto count = std::distance(chosen.lower_bound(begin), chosen.lower_bound(end));
  const int32_t last = begin + static_cast<int32_t>(count);
  if (device.recomputed == nullptr || count == 0) return {};
  const LayerCosts none = device.profile->CostsOf(begin, last, IsSharded(in));
  const LayerCosts all = device.recomputed->CostsOf(begin, last, IsSharded(in));
  return {.backward = std::max<int64_t>(0, all.backward - none.backward),
          .backward_input = std::max<int64_t>(0, all.backward_input - none.backward_input)};
}

}  // namespace

int64_t ReplicasThatShare(const Plan& plan) {
  return plan.zero().group() > 0 ? plan.zero().group() : AxisSize(plan.mesh(), "data");
}

int64_t StateBytes(const Plan& plan, const LayerCosts& costs) {
  const int64_t group = ReplicasThatShare(plan);
  const int zero = plan.zero().stage();
  const int64_t optimizer = plan.offload().optimizer() ? 0 : Divided(costs.optimizer_bytes, group, zero >= 1);
  return Divided(costs.parameter_bytes, group, zero >= 3) + optimizer + Divided(costs.gradient_bytes, group, zero >= 2);
}

ScheduleShape ShapeOf(const PipelineSchedule& schedule, bool frees_between_halves) {
  ScheduleShape shape{.stages = schedule.stages, .placement = schedule.placement};
  shape.microbatches.resize(schedule.lanes);
  for (const std::vector<Slot>& order : schedule.order) {
    std::vector<ScheduleShape::Held>& held = shape.held.emplace_back();
    std::map<int, int64_t> saved, gradients;
    // Microbatches in `saved` and `gradients` together, and the most so far.
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
  const StagesOnRanks costed(in);
  for (size_t lane = 0; lane < shape.placement.size(); ++lane) {
    int64_t fill = 0, drain = 0;
    const int64_t microbatches = shape.microbatches[lane];
    for (int s = 0; s < shape.stages; ++s) {
      const int rank = shape.placement[lane][s];
      RankLoad& load = ranks[rank];
      const LayerCosts& costs = costed.On(rank)[s];
      if (s > 0 && shape.placement[lane][s - 1] != rank) {
        fill += in.network.forward_message;
        drain += in.network.backward_message;
      }
      load.ends |= (s == 0 ? kFirst : 0) | (s + 1 == shape.stages ? kLast : 0);
      ++load.stages;
      load.least_step += LeastStep(in, costed.DeviceOf(rank), costs);
      load.step += Divided(costs.step, group, zero >= 1);
      load.states += StateBytes(in.plan, costs);
      load.gradients += Divided(costs.gradient_bytes, group, zero >= 2);
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
      load.again += microbatches * (BackwardOf(costed.RecomputedOn(rank)[s], shape) - BackwardOf(costs, shape));
      if (shape.split_backward) load.weight_halves += microbatches * costs.backward_weight;
      fill += costs.forward;
      drain += InputOf(costs, shape);
    }
  }
  for (size_t p = 0; p < ranks.size(); ++p) {
    RankLoad& load = ranks[p];
    const RankDevice& device = costed.DeviceOf(p);
    const LayerCosts& shared = device.profile->saved_by_joining;
    // A rank runs some parts of the optimizer step once, not once for each stage.
    load.step = std::max<int64_t>(0, load.step - std::max(0, load.stages - 1) * shared.step);
    if (load.ends != kBothEnds || shape.stages == 1) continue;
    // The first and the last layer may share a parameter.
    load.gradients = std::max<int64_t>(0, load.gradients - shared.gradient_bytes);
    load.least_step = std::max<int64_t>(0, load.least_step - LeastStep(in, device, shared));
    load.states =
        std::max<int64_t>(0, load.states - shared.parameter_bytes - shared.optimizer_bytes - shared.gradient_bytes);
  }
  PlanBound bound;
  int64_t least = 0, flow = 0, sync = 0;
  const int first = shape.placement[0][0];
  const double ps_per_byte = in.network.sum_ps_per_byte;
  int64_t least_step = ranks[first].least_step;
  for (const std::vector<int>& lane : shape.placement) least_step = std::min(least_step, ranks[lane[0]].least_step);
  const int64_t end = EndOfStep(in, costed.On(first)[0], least_step);
  bound.recomputed_share.resize(in.recomputed == nullptr ? 0 : ranks.size());
  bound.recomputable_bytes.resize(bound.recomputed_share.size());
  for (size_t p = 0; p < ranks.size(); ++p) {
    const RankLoad& load = ranks[p];
    if (load.fill == kFar) continue;
    const RankMemory memory =
        MemoryOf(in, load.states, costed.DeviceOf(p).capacity, shape.held[p], costed.On(p), costed.RecomputedOn(p));
    const double share = memory.share;
    const int64_t again = static_cast<int64_t>(share * static_cast<double>(load.again));
    if (in.recomputed != nullptr) {
      bound.recomputed_share[p] = share;
      bound.recomputable_bytes[p] = memory.recomputable;
    }
    bound.least_bytes = std::max(bound.least_bytes, memory.bytes);
    bound.fits &= memory.bytes <= costed.DeviceOf(p).capacity;
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

absl::Status TightenBound(const BoundInputs& in, const PipelineSchedule& schedule, int microbatches, PlanBound* bound,
                          const std::set<int32_t>* chosen) {
  const StagesOnRanks costed(in);
  constexpr std::array kTimes = {&StageCosts::forward, &StageCosts::backward, &StageCosts::backward_input,
                                 &StageCosts::backward_weight};
  std::vector<StageCosts> costs;
  int32_t layer = 0;
  for (int s = 0; s < in.shape.stages; ++s) {
    // A stage of several lanes may be recomputed on one of its ranks only, or take less time on one of them.
    StageCosts least;
    for (size_t lane = 0; lane < in.shape.placement.size(); ++lane) {
      const int rank = in.shape.placement[lane][s];
      const double share = bound->recomputed_share.empty() ? 0 : bound->recomputed_share[rank];
      const auto between = [&](int64_t none, int64_t all) {
        return none + static_cast<int64_t>(share * static_cast<double>(std::max<int64_t>(0, all - none)));
      };
      const LayerCosts &none = costed.On(rank)[s], &all = costed.RecomputedOn(rank)[s];
      StageCosts here = {none.forward, between(none.backward, all.backward),
                         between(none.backward_input, all.backward_input), none.backward_weight};
      if (chosen != nullptr) {
        const LayerCosts again = AgainOf(in, costed.DeviceOf(rank), layer, layer + in.layers_per_stage[s], *chosen);
        here.backward = none.backward + again.backward;
        here.backward_input = none.backward_input + again.backward_input;
      }
      for (const auto time : kTimes) least.*time = lane == 0 ? here.*time : std::min(least.*time, here.*time);
    }
    costs.push_back(least);
    layer += in.layers_per_stage[s];
  }
  const int first = in.shape.placement[0][0];
  int64_t step = LeastStep(in, costed.DeviceOf(first), costed.On(first)[0]);
  for (const std::vector<int>& lane : in.shape.placement) {
    step = std::min(step, LeastStep(in, costed.DeviceOf(lane[0]), costed.On(lane[0])[0]));
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
  const double least = ToSeconds(Time{drained + EndOfStep(in, costed.On(first)[0], step)});
  const double slack = bound->estimated_seconds - bound->least_seconds;
  bound->least_seconds = std::max(bound->least_seconds, least);
  bound->estimated_seconds = std::max(bound->estimated_seconds, least + std::max(0.0, slack));
  return absl::OkStatus();
}

}  // namespace weft::planner
