#include "planner/search/plan_estimate.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "planner/search/rank_memory.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"
#include "schedules/pipeline/timing.h"

namespace weft::planner {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

// A stage on one of the ranks that hold it. Times are picoseconds.
struct PlacedStage {
  int stage = 0;
  int rank = 0;
  int64_t microbatches = 0;
  StageCosts costs;
  // Reduce-scatters of one backward that run beside the next one.
  int64_t scatters = 0;
  // The sum of its gradients after its last backward, and the part of it that the backward cannot hide.
  int64_t sum = 0;
  int64_t last_part = 0;
  // The gather of its weights after the optimizer step.
  int64_t gather = 0;
  int64_t step = 0;
  // Bytes of optimizer states on this rank.
  double state_bytes = 0;
};

// The stages of one lane, first to last.
using Lane = std::vector<PlacedStage>;

// When a pipeline runs, in picoseconds from the first forward of stage 0.
struct PipelineTimes {
  // By lane and stage: the end of the stage's last backward, with its weight half.
  std::vector<std::vector<int64_t>> done;
  // By pipe rank: when it has its first input.
  std::vector<int64_t> fill;
};

class Estimator {
 public:
  Estimator(const EstimateInputs& inputs, const PlanBound& bound)
      : inputs_(inputs),
        in_(inputs.plan),
        shape_(inputs.plan.shape),
        zero_(inputs.plan.plan.zero().stage()),
        group_(ReplicasThatShare(inputs.plan.plan)),
        data_(AxisSize(inputs.plan.plan.mesh(), "data")),
        on_(in_),
        runs_(RecomputedRunsOf(in_, on_)) {
    for (const int32_t layers : in_.layers_per_stage) first_layer_.push_back(first_layer_.back() + layers);
    for (size_t lane = 0; lane < shape_.placement.size(); ++lane) {
      Lane& stages = lanes_.emplace_back();
      for (int s = 0; s < shape_.stages; ++s) stages.push_back(Place(static_cast<int>(lane), s, bound));
    }
  }

  // The pipeline as if its busiest rank never waited between its first and its last slot.
  PipelineTimes Flow() const {
    PipelineTimes times{.done = {}, .fill = std::vector<int64_t>(shape_.held.size(), kFar)};
    std::vector<int64_t> work(shape_.held.size()), halves(work.size()), drain(work.size(), kFar), scatters(work.size());
    std::vector<std::vector<int64_t>> drains;
    for (const Lane& lane : lanes_) {
      int64_t fill = 0, drained = 0;
      std::vector<int64_t>& of_lane = drains.emplace_back();
      for (const PlacedStage& stage : lane) {
        if (stage.stage > 0 && lane[stage.stage - 1].rank != stage.rank) {
          fill += inputs_.network.forward_message;
          drained += inputs_.network.backward_message;
        }
        of_lane.push_back(drained);
        if (stage.microbatches == 0) continue;
        times.fill[stage.rank] = std::min(times.fill[stage.rank], fill);
        drain[stage.rank] = std::min(drain[stage.rank], drained);
        work[stage.rank] += stage.microbatches * (stage.costs.forward + WholeBackward(stage.costs));
        scatters[stage.rank] += stage.microbatches * stage.scatters;
        if (shape_.split_backward) halves[stage.rank] += stage.microbatches * stage.costs.backward_weight;
        fill += stage.costs.forward;
        drained += shape_.split_backward ? stage.costs.backward_input : stage.costs.backward;
      }
    }
    int64_t end = 0;
    for (size_t p = 0; p < work.size(); ++p) {
      if (times.fill[p] == kFar) continue;
      const int64_t busy = std::max(work[p], scatters[p]);
      end = std::max({end, times.fill[p] + busy - halves[p] + drain[p], times.fill[p] + busy});
    }
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      std::vector<int64_t>& done = times.done.emplace_back();
      for (const PlacedStage& stage : lanes_[lane]) {
        const int64_t input = end - drains[lane][stage.stage];
        done.push_back(shape_.split_backward ? std::max(input, times.fill[stage.rank] + work[stage.rank]) : input);
      }
    }
    return times;
  }

  absl::StatusOr<PipelineTimes> Slots(PipelineSchedule schedule, int microbatches) const {
    std::vector<StageCosts> costs(shape_.stages);
    for (const Lane& lane : lanes_) {
      for (const PlacedStage& stage : lane) {
        StageCosts& slowest = costs[stage.stage];
        slowest.forward = std::max(slowest.forward, stage.costs.forward);
        slowest.backward = std::max(slowest.backward, stage.costs.backward);
        slowest.backward_input = std::max(slowest.backward_input, stage.costs.backward_input);
        slowest.backward_weight = std::max(slowest.backward_weight, stage.costs.backward_weight);
      }
    }
    // A pair of slots takes as long as both.
    for (std::vector<Slot>& order : schedule.order) {
      for (Slot& slot : order) slot.paired = false;
    }
    const int64_t p2p = (inputs_.network.forward_message + inputs_.network.backward_message) / 2;
    absl::StatusOr<ScheduleTiming> timing = TimeSchedule(schedule, microbatches, std::move(costs), p2p);
    if (!timing.ok()) return timing.status();
    PipelineTimes times{.done = std::vector<std::vector<int64_t>>(lanes_.size(), std::vector<int64_t>(shape_.stages)),
                        .fill = std::vector<int64_t>(shape_.held.size(), kFar)};
    for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
      for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
        const Slot& slot = schedule.order[rank][i];
        times.fill[rank] = std::min(times.fill[rank], timing->start[rank][i]);
        int64_t& done = times.done[slot.lane][slot.stage];
        if (slot.kind != SlotKind::kForward) done = std::max(done, timing->end[rank][i]);
      }
    }
    return times;
  }

  // Returns the seconds of an iteration whose pipeline has these times.
  double Iteration(const PipelineTimes& times) const {
    const size_t ranks = shape_.held.size();
    std::vector<std::vector<std::pair<int64_t, const PlacedStage*>>> of_rank(ranks);
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      for (const PlacedStage& stage : lanes_[lane]) {
        of_rank[stage.rank].emplace_back(times.done[lane][stage.stage], &stage);
      }
    }
    int64_t summed = 0, rest = 0, alone = 0;
    const int64_t tied = TiedSum();
    const int first_rank = shape_.placement[0].front(), last_rank = shape_.placement[0].back();
    for (size_t p = 0; p < ranks; ++p) {
      if (of_rank[p].empty() || times.fill[p] == kFar) continue;
      std::stable_sort(of_rank[p].begin(), of_rank[p].end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      int64_t own = 0, stream = 0, step = 0, first = std::numeric_limits<int>::max(), gather = 0;
      double state_bytes = 0;
      for (const auto& [done, stage] : of_rank[p]) {
        stream = std::max(done + stage->last_part, std::max(stream, SumBegins(*stage, done)) + stage->sum);
        own = std::max({own, done, stream});
        step += stage->step;
        state_bytes += stage->state_bytes;
        if (stage->stage < first) {
          first = stage->stage;
          gather = Gather(*stage);
        }
      }
      step = std::max<int64_t>(0, step - SavedSteps(static_cast<int>(p), std::ssize(of_rank[p])));
      if (static_cast<int>(p) == first_rank || static_cast<int>(p) == last_rank) own += tied;
      const int64_t update = Update(step, state_bytes) + gather - times.fill[p];
      summed = std::max(summed, own);
      rest = std::max(rest, update);
      alone = std::max(alone, own + update);
    }
    return ToSeconds(Time{inputs_.clips ? summed + inputs_.network.norm + rest : alone});
  }

 private:
  int64_t WholeBackward(const StageCosts& costs) const {
    return shape_.split_backward ? costs.backward_input + costs.backward_weight : costs.backward;
  }

  // The part of the optimizer step that a rank runs once, not once for each of its stages.
  int64_t SavedSteps(int rank, int64_t stages) const {
    const BlockProfile& profile = on_.In(rank).profile;
    return (stages - 1) * profile.saved_by_joining.step / std::max<int64_t>(1, std::ssize(profile.runs) - 1);
  }

  PlacedStage Place(int lane, int s, const PlanBound& bound) const {
    const int rank = shape_.placement[lane][s];
    const LayerCosts& layers = on_.Stages(rank)[s];
    PlacedStage stage;
    stage.stage = s;
    stage.rank = rank;
    stage.microbatches = shape_.microbatches[lane];
    double again_whole = 0, again_input = 0;
    if (in_.recomputed != nullptr && !runs_[rank].empty()) {
      ForEachRecomputed(runs_[rank], bound.recomputed_layers[rank], [&](const RecomputedRun& run, double share) {
        if (run.stage != s) return;
        again_whole += share * static_cast<double>(run.change.again_whole);
        again_input += share * static_cast<double>(run.change.again_input);
      });
    }
    stage.costs = {layers.forward, layers.backward + static_cast<int64_t>(again_whole),
                   layers.backward_input + static_cast<int64_t>(again_input), layers.backward_weight};
    stage.step = layers.step / (zero_ >= 1 ? group_ : 1);
    stage.state_bytes = static_cast<double>(layers.optimizer_bytes) / static_cast<double>(zero_ >= 1 ? group_ : 1);
    // The last reduce-scatter over z comes after the backward of the stage's first layer.
    stage.scatters = layers.expected_scatter;
    stage.sum = stage.last_part = layers.expected_scatter / in_.layers_per_stage[s];
    if (data_ > 1) AddReplicas(on_.In(rank).profile, layers, &stage);
    return stage;
  }

  // Adds what the replicas of a stage send.
  void AddReplicas(const BlockProfile& profile, const LayerCosts& costs, PlacedStage* stage) const {
    const ExpectedNetwork& network = inputs_.network;
    const double reduced = MessageShare(in_.plan), gradients = reduced * static_cast<double>(costs.gradient_bytes);
    int64_t sum = 0;
    if (zero_ == 0 || group_ == 1) {
      sum = network.sum.At(gradients);
    } else if (zero_ == 1) {
      sum = network.scatter.At(gradients);
    }
    if (zero_ >= 1 && group_ > 1 && group_ < data_) {
      sum += network.sum_of_parts.At(gradients / static_cast<double>(group_));
    }
    stage->sum += sum;
    stage->last_part += sum / Buckets(gradients);
    if (zero_ == 0 || group_ == 1) return;
    const Zero::Reshard reshard = in_.plan.zero().reshard();
    const bool gathers_layers = zero_ >= 3 && reshard != Zero::NEVER;
    if (!gathers_layers) stage->gather = network.gather.At(static_cast<double>(costs.parameter_bytes));
    if (zero_ == 1) return;
    const Overlap& overlap = in_.plan.overlap();
    const bool hides_gathers = !overlap.has_all_gather() || overlap.all_gather();
    const bool hides_scatters = !overlap.has_reduce_scatter() || overlap.reduce_scatter();
    // A gather is issued one layer ahead, so only that layer's computation hides it. Backwards visit layers in reverse
    // order; their reduce-scatters run one after the other, up to the first layer's.
    Hidden forward, backward;
    int64_t scattered = 0, scatters = 0, computed = 0;
    ForEachLayer(profile, *stage, [&](const LayerCosts& layer, int32_t) {
      if (gathers_layers) forward.Add(network.gather.At(static_cast<double>(layer.parameter_bytes)), layer.forward);
    });
    ForEachLayerBackward(profile, *stage, [&](const LayerCosts& layer, int32_t index) {
      const int64_t compute = shape_.split_backward ? layer.backward_input : layer.backward;
      // The backward of an embedding needs no weights.
      const bool gathers = gathers_layers && reshard != Zero::AFTER_BACKWARD && index > 0;
      backward.Add(gathers ? network.gather.At(static_cast<double>(layer.parameter_bytes)) : 0, compute);
      const int64_t scatter = network.scatter.At(reduced * static_cast<double>(layer.gradient_bytes));
      computed += compute;
      scattered = std::max(scattered, computed) + scatter;
      scatters += scatter;
    });
    stage->costs.forward += hides_gathers ? forward.exposed : forward.all;
    AddToBackward((hides_gathers ? backward.exposed : backward.all) + (hides_scatters ? 0 : scatters), stage);
    if (!hides_scatters) return;
    stage->scatters += scatters;
    stage->sum += scattered - computed;
    stage->last_part += scattered - computed;
  }

  // Gathers that are each hidden by the computation before them.
  struct Hidden {
    int64_t exposed = 0;
    int64_t all = 0;
    int64_t before = 0;
    void Add(int64_t gather, int64_t compute) {
      exposed += std::max<int64_t>(0, gather - before);
      all += gather;
      before = compute;
    }
  };

  // Calls visit(costs, index in the model) for the layers of the stage, in order.
  template <typename Visit>
  void ForEachLayer(const BlockProfile& profile, const PlacedStage& stage, const Visit& visit) const {
    const auto [begin, end] = LayersOf(stage);
    for (const RunCosts& run : profile.runs) {
      const int32_t from = std::max(begin, run.run.first), to = std::min(end, run.run.first + run.run.layers);
      for (int32_t i = from; i < to; ++i) visit(BlockProfile::LayerOf(run, to - from), i);
    }
  }
  template <typename Visit>
  void ForEachLayerBackward(const BlockProfile& profile, const PlacedStage& stage, const Visit& visit) const {
    const auto [begin, end] = LayersOf(stage);
    for (auto run = profile.runs.rbegin(); run != profile.runs.rend(); ++run) {
      const int32_t from = std::max(begin, run->run.first), to = std::min(end, run->run.first + run->run.layers);
      for (int32_t i = to; i-- > from;) visit(BlockProfile::LayerOf(*run, to - from), i);
    }
  }
  std::pair<int32_t, int32_t> LayersOf(const PlacedStage& stage) const {
    return {first_layer_[stage.stage], first_layer_[stage.stage] + in_.layers_per_stage[stage.stage]};
  }

  static void AddToBackward(int64_t time, PlacedStage* stage) {
    stage->costs.backward += time;
    stage->costs.backward_input += time;
  }

  // The time that the sum of the gradients takes that the first and the last stage's ranks both have, if these ranks
  // differ. The savings of joining all layers show the size of the shared parameters.
  int64_t TiedSum() const {
    const std::vector<int>& lane = shape_.placement[0];
    if (lane.front() == lane.back()) return 0;
    const auto shared = static_cast<double>(on_.In(lane.back()).profile.saved_by_joining.parameter_bytes);
    const double elements =
        shared / static_cast<double>(std::max<int64_t>(1, DTypeBytes(in_.plan.precision().params())));
    const double bytes = elements * static_cast<double>(DTypeBytes(in_.plan.precision().reduce()));
    return inputs_.network.tied.At(bytes / static_cast<double>(zero_ >= 1 ? group_ : 1));
  }

  // The number of buckets that are summed one by one beside the backward; 1 = the sum comes after it.
  int64_t Buckets(double gradients) const {
    const int64_t bucket = in_.plan.gradient_bucket_bytes();
    if (!HidesSums() || bucket <= 0) return 1;
    return std::max<int64_t>(1, static_cast<int64_t>(gradients / static_cast<double>(bucket)));
  }

  // When the sum of a stage's gradients may begin, if the stage is done at `done`.
  int64_t SumBegins(const PlacedStage& stage, int64_t done) const {
    if (!HidesSums()) return done;
    return done - WholeBackward(stage.costs);
  }
  bool HidesSums() const { return inputs_.runtime != nullptr && inputs_.runtime->sums_under_backward(); }

  // The part of the gather of a stage's weights that delays the stage's first forward.
  int64_t Gather(const PlacedStage& stage) const {
    if (inputs_.runtime == nullptr || !inputs_.runtime->gathers_under_forward()) return stage.gather;
    return std::max<int64_t>(0, stage.gather - stage.costs.forward);
  }

  int64_t Update(int64_t step, double state_bytes) const {
    if (!in_.plan.offload().optimizer() || !(inputs_.host_bytes_per_second > 0)) return step;
    const bool shares = inputs_.runtime != nullptr && inputs_.runtime->one_copy_stream();
    const double copies = (shares ? 2 : 1) * 1e12 * state_bytes / inputs_.host_bytes_per_second;
    return std::max(step, static_cast<int64_t>(copies));
  }

  const EstimateInputs& inputs_;
  const BoundInputs& in_;
  const ScheduleShape& shape_;
  const int zero_;
  const int64_t group_;
  const int64_t data_;
  const Ranks on_;
  const std::vector<std::vector<RecomputedRun>> runs_;
  std::vector<int32_t> first_layer_ = {0};
  std::vector<Lane> lanes_;
};

}  // namespace

double EstimateOf(const EstimateInputs& inputs, const PlanBound& bound) {
  const Estimator estimator(inputs, bound);
  return std::max(bound.least_seconds, estimator.Iteration(estimator.Flow()));
}

absl::StatusOr<double> EstimateBySlots(const EstimateInputs& inputs, const PipelineSchedule& schedule, int microbatches,
                                       const PlanBound& bound) {
  const Estimator estimator(inputs, bound);
  absl::StatusOr<PipelineTimes> times = estimator.Slots(schedule, microbatches);
  if (!times.ok()) return times.status();
  return std::max(bound.least_seconds, estimator.Iteration(*times));
}

}  // namespace weft::planner
