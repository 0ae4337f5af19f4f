#include "planner/fit/memory_estimate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/balanced_partition.h"
#include "compiler/inputs/plan_schedule.h"
#include "compiler/inputs/stage_cut.h"
#include "compiler/mixed_cut.h"
#include "planner/compile.h"
#include "planner/evaluate.h"
#include "planner/fit/rank_lists.h"
#include "planner/fit/stage_forms.h"
#include "planner/fit/stage_parts.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

// Shortens stages. Each further layer of a run adds the same bytes, with one exception: gradients that are scattered
// while others are computed keep their bytes until layers with twice the bytes of the largest layer have been computed
// (compiler/memory/deferred_lives.h). The largest layer may be the embedding, which is worth several blocks. How well
// these gradients fill the bytes of earlier ones repeats with that many layers.
class Shortener {
 public:
  Shortener(const ModelGraph& model, absl::Span<const LayerRun> runs, const Plan& plan) {
    // One of every `every_` layers of a stage is recomputed, so what a stage keeps repeats with that period.
    if (plan.recompute().mode() == Recompute::EVERY) {
      every_ = std::clamp(plan.recompute().every(), 1, kMostPeriod);
      period_ = every_;
    }
    if (plan.zero().stage() < 2 && AxisSize(plan.mesh(), "z") == 1) return;
    most_ = 3;
    std::map<std::string, double> elements;
    for (const GraphParameter& parameter : model.parameters()) {
      elements[parameter.name()] =
          std::accumulate(parameter.shape().begin(), parameter.shape().end(), 1.0, std::multiplies<>());
    }
    std::map<int32_t, double> of_layer;
    double largest = 0;
    for (const GraphOp& op : model.ops()) {
      for (const std::string& input : op.inputs()) {
        const auto found = elements.find(input);
        if (found != elements.end()) largest = std::max(largest, of_layer[op.layer()] += found->second);
      }
    }
    for (const LayerRun& run : runs) {
      if (run.layers == 1) continue;
      const double layers = std::min<double>(kMostPeriod, 2 * largest / std::max(1.0, of_layer[run.first]));
      period_ = std::lcm(every_, std::max(1, static_cast<int32_t>(layers)));
    }
  }

  // `Large` returns how many layers of a run are compiled for a stage that has `layers` of them. `Small` returns the
  // number for a second, shorter program. It is smaller only if `Large` leaves layers out.
  int32_t Large(int32_t layers, bool mixed) const {
    const int32_t period = mixed ? period_ : every_, least = most_ + (period == 1 ? 0 : period);
    return layers <= least ? layers : least + (layers - least) % period;
  }
  int32_t Small(int32_t layers, bool mixed) const {
    const int32_t large = Large(layers, mixed);
    return large == layers ? layers : large - (mixed ? period_ : every_);
  }

 private:
  static constexpr int32_t kMostPeriod = 12;
  // At least this many layers of a run are compiled, if the stage has them. Gathers that run ahead need one more.
  int32_t most_ = 2;
  // Periods in layers: for a stage with layers of one run, and for a stage with layers of several runs.
  int32_t every_ = 1;
  int32_t period_ = 1;
};

int64_t UsableOnEvery(const Cluster& cluster) {
  int64_t usable = UsableBytes(cluster.device());
  for (const OtherDevices& other : cluster.other_devices()) {
    if (other.has_device()) usable = std::min(usable, UsableBytes(other.device()));
  }
  return usable;
}

// Form pipelines rarely need more layers of a run than this.
constexpr int32_t kShortModel = 24;

std::vector<LayerRun> ShortRuns(const std::vector<LayerRun>& runs) {
  std::vector<LayerRun> shortened;
  int32_t first = 0;
  for (const LayerRun& run : runs) {
    shortened.push_back({first, std::min(run.layers, kShortModel)});
    first += shortened.back().layers;
  }
  return shortened;
}

// True if a rank's offloaded states have so many buckets that the bytes of one bucket hardly matter. If one bucket
// holds all states of a rank, the arena has large gaps around it.
bool HasManyBuckets(const PlanInputs& inputs) {
  constexpr double kDefaultElements = 1 << 24;
  constexpr double kMany = 8;
  double elements = 0;
  for (const GraphParameter& parameter : inputs.model.parameters()) {
    elements += std::accumulate(parameter.shape().begin(), parameter.shape().end(), 1.0, std::multiplies<>());
  }
  const double ranks = static_cast<double>(MeshRanks(inputs.plan.mesh()) / AxisSize(inputs.plan.mesh(), "data"));
  const double bucket = inputs.plan.offload().bucket_elements() > 0
                            ? static_cast<double>(inputs.plan.offload().bucket_elements())
                            : kDefaultElements;
  return elements / std::max(1.0, ranks) > kMany * bucket;
}

// Returns OK if the lists of ranks (rank_lists.h) can stand for the program of this plan, else the reason why not.
absl::Status CheckExpressible(const PlanInputs& inputs) {
  const Plan& plan = inputs.plan;
  const auto no = [](absl::string_view what) { return absl::UnimplementedError(what); };
  if (inputs.asynchronous) return no("the schedule never flushes");
  if (inputs.schedule.message_driven) return no("ranks choose their order while they run");
  if (plan.schedule().scaling() == PlanSchedule::BACKWARD_HALVING) return no("forwards are wider than backwards");
  if (plan.post_validation()) return no("plan.post_validation keeps states");
  if (plan.offload().activation_layers() > 0) return no("activations are offloaded");
  if (plan.overlap().gathered_cache_bytes() > 0) return no("gathered weights are cached");
  if (plan.offload().optimizer() && !HasManyBuckets(inputs)) return no("the states are in few buckets");
  if (plan.zero().reshard() == Zero::LAYERS) return no("plan.zero.kept_layers names layers");
  switch (plan.recompute().mode()) {
    case Recompute::NONE:
    case Recompute::FULL:
    case Recompute::SELECTIVE:
    case Recompute::FIT:
    case Recompute::EVERY:
      return absl::OkStatus();
    default:
      return no("plan.recompute names layers by their position");
  }
}

// Returns the most that each rank holds at a time: microbatches whose activations are kept, plus microbatches between
// the two halves of their backwards.
std::vector<int64_t> MostHeld(const PipelineSchedule& schedule) {
  std::vector<int64_t> most;
  for (const std::vector<Slot>& order : schedule.order) {
    int64_t held = 0, highest = 0;
    for (const Slot& slot : order) {
      held += slot.kind == SlotKind::kForward         ? slot.width
              : slot.kind == SlotKind::kBackwardInput ? 1
              : slot.kind == SlotKind::kBackward      ? -1
                                                      : -2;
      highest = std::max(highest, held);
    }
    most.push_back(highest);
  }
  return most;
}

struct ShortSchedule {
  PipelineSchedule schedule;
  int microbatches = 1;
};

// Returns the schedule with fewer microbatches, if its ranks then hold as much as with all of them; else the whole
// schedule.
ShortSchedule Shorten(const PlanInputs& inputs) {
  ShortSchedule whole{inputs.schedule, inputs.microbatches};
  if (!inputs.plan.schedule().definition().empty()) return whole;
  const int ranks = static_cast<int>(inputs.schedule.order.size());
  std::optional<std::vector<int64_t>> held;
  for (const int times : {1, 2, 3, 4, 8}) {
    const int microbatches = std::max(2, times * ranks);
    if (microbatches >= inputs.microbatches) break;
    // Stages of several lanes differ, so the number of activations does not tell which ones a rank holds.
    if (inputs.schedule.lanes > 1 && times < 4) continue;
    absl::StatusOr<PipelineSchedule> fewer = ScheduleOf(ChoiceOf(inputs.plan.schedule(), ranks, microbatches, {}));
    if (!fewer.ok()) continue;
    if (!held) held = MostHeld(inputs.schedule);
    if (MostHeld(*fewer) == *held) return {*std::move(fewer), microbatches};
  }
  return whole;
}

BackwardForms BackwardsOf(const PipelineSchedule& schedule) {
  BackwardForms forms{.whole = false, .split = false};
  for (const std::vector<Slot>& order : schedule.order) {
    for (const Slot& slot : order) {
      forms.whole |= slot.kind == SlotKind::kBackward;
      forms.split |= slot.kind == SlotKind::kBackwardInput;
    }
  }
  return forms;
}

// Returns the number of layers of a rank's stages.
int64_t LayersOfRank(const PipelineSchedule& schedule, int rank, const std::vector<int32_t>& layers_of_stage) {
  int64_t layers = 0;
  for (const std::vector<int>& lane : schedule.placement) {
    for (size_t stage = 0; stage < lane.size(); ++stage) {
      if (lane[stage] == rank) layers += layers_of_stage[stage];
    }
  }
  return layers;
}

// Returns true for one rank of each group of ranks whose stages have equal numbers of layers: the rank that holds the
// most microbatches. The first and the last stage of the model count as different from all others.
std::vector<bool> FullestOfEachForm(const PipelineSchedule& schedule, const std::vector<int32_t>& layers_per_stage) {
  const std::vector<int64_t> held = MostHeld(schedule);
  std::map<std::vector<int32_t>, size_t> fullest;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    std::vector<int32_t> form;
    for (const std::vector<int>& lane : schedule.placement) {
      for (size_t stage = 0; stage < lane.size(); ++stage) {
        if (lane[stage] != static_cast<int>(rank)) continue;
        const bool is_end = stage == 0 || stage + 1 == lane.size();
        form.push_back(is_end ? -1 - static_cast<int32_t>(stage) : layers_per_stage[stage]);
      }
    }
    const auto [found, is_new] = fullest.try_emplace(std::move(form), rank);
    if (!is_new && held[rank] > held[found->second]) found->second = rank;
  }
  std::vector<bool> wanted(held.size());
  for (const auto& [form, rank] : fullest) wanted[rank] = true;
  return wanted;
}

double ErrorOf(const PlanInputs& inputs, BackwardForms backwards) {
  if (inputs.plan.offload().optimizer()) return kEstimateErrorOfBuckets;
  const PipelineSchedule& schedule = inputs.schedule;
  const bool several = schedule.stages > static_cast<int>(schedule.order.size());
  return schedule.lanes > 1 || (several && backwards.split) ? kEstimateErrorOfSeveralStages : kEstimateError;
}

// Returns the plan's fields that matter for a form pipeline, as a key.
std::string KeyOf(const PlanInputs& inputs) {
  Plan plan = inputs.plan;
  plan.clear_schedule();
  plan.clear_partition();
  plan.clear_mesh();
  for (const MeshAxis& axis : inputs.plan.mesh().axes()) {
    if (axis.name() != "pipe") *plan.mutable_mesh()->add_axes() = axis;
  }
  return absl::StrCat(inputs.recipe.microbatch_sequences(), " ", plan.SerializeAsString());
}

}  // namespace

MemoryEstimator::MemoryEstimator(const ModelGraph& model, const Cluster& cluster, std::string cost,
                                 const Runtime* runtime)
    : model_(model),
      cluster_(cluster),
      cost_(std::move(cost)),
      runtime_(runtime),
      runs_(RunsOfLayers(model)),
      short_model_(ShortenRuns(model, runs_, kShortModel)),
      short_runs_(ShortRuns(runs_)),
      capacity_(UsableOnEvery(cluster)) {}

absl::StatusOr<PlanInputs> MemoryEstimator::Resolved(const Recipe& recipe, const Plan& plan) const {
  absl::StatusOr<PlanInputs> inputs = ResolveInputs(short_model_, recipe, plan, cluster_, /*notes=*/nullptr);
  // Use the whole model: the plan may have more stages than the short model has layers, and an error must name the
  // whole model.
  if (!inputs.ok()) inputs = ResolveInputs(model_, recipe, plan, cluster_, /*notes=*/nullptr);
  if (inputs.ok()) inputs->cost = cost_;
  return inputs;
}

absl::StatusOr<PlanMemory> MemoryEstimator::Estimate(const Recipe& recipe, const Plan& plan, bool fullest_only) {
  if (plan.recompute().mode() == Recompute::FIT) return EstimateFit(recipe, plan, fullest_only);
  Plan least = plan;
  // The compiler chooses other settings than these only if memory is left for them.
  if (least.zero().reshard() == Zero::BY_BENEFIT) least.mutable_zero()->set_reshard(Zero::AFTER_FORWARD);
  if (least.transfer_placement() == FASTEST) least.set_transfer_placement(EARLY);
  WEFT_ASSIGN_OR_RETURN(const PlanInputs inputs, Resolved(recipe, least));
  WEFT_RETURN_IF_ERROR(CheckExpressible(inputs));
  WEFT_ASSIGN_OR_RETURN(const std::vector<int32_t> cut, CutOf(inputs));
  return EstimateWith(inputs, cut, fullest_only);
}

absl::StatusOr<PlanMemory> MemoryEstimator::EstimateFit(const Recipe& recipe, const Plan& plan, bool fullest_only) {
  Plan none = plan;
  none.clear_recompute();
  WEFT_ASSIGN_OR_RETURN(PlanInputs inputs, Resolved(recipe, none));
  WEFT_RETURN_IF_ERROR(CheckExpressible(inputs));
  // The compiler keeps the cut of the plan that recomputes nothing.
  WEFT_ASSIGN_OR_RETURN(const std::vector<int32_t> cut, CutOf(inputs));
  WEFT_ASSIGN_OR_RETURN(PlanMemory memory, EstimateWith(inputs, cut, fullest_only));
  if (memory.MostDeviceBytes() <= capacity_) return memory;
  inputs.plan.mutable_recompute()->set_mode(Recompute::FULL);
  WEFT_ASSIGN_OR_RETURN(const PlanMemory all, EstimateWith(inputs, cut, fullest_only));
  for (size_t rank = 0; rank < memory.ranks.size(); ++rank) {
    RankMemory& own = memory.ranks[rank];
    const int64_t over = own.device_bytes - capacity_, saved = own.device_bytes - all.ranks[rank].device_bytes;
    if (over <= 0 || saved <= 0) continue;
    const auto layers = static_cast<double>(LayersOfRank(inputs.schedule, static_cast<int>(rank), cut));
    const double needed = std::ceil(static_cast<double>(over) / static_cast<double>(saved) * layers);
    const double share = std::min(1.0, needed / std::max(1.0, layers));
    const auto between = [&](int64_t* bytes, int64_t least) {
      *bytes += static_cast<int64_t>(share * static_cast<double>(least - *bytes));
    };
    for (size_t c = 0; c < own.classes.size(); ++c) between(&own.classes[c], all.ranks[rank].classes[c]);
    between(&own.planned_bytes, all.ranks[rank].planned_bytes);
    between(&own.device_bytes, all.ranks[rank].device_bytes);
  }
  return memory;
}

absl::StatusOr<std::vector<int32_t>> MemoryEstimator::CutOf(const PlanInputs& inputs) {
  const auto& given = inputs.plan.partition().layers_per_stage();
  const int32_t layers = runs_.back().first + runs_.back().layers;
  const int stages = inputs.schedule.stages;
  if (!given.empty()) {
    if (given.size() != stages || std::accumulate(given.begin(), given.end(), int64_t{0}) != layers ||
        std::any_of(given.begin(), given.end(), [](int32_t count) { return count < 1; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan.partition.layers_per_stage has ", given.size(), " stages; needed: ", stages,
                       " stages of at least one layer each, with ", layers, " layers in all"));
    }
    return std::vector<int32_t>(given.begin(), given.end());
  }
  if (runtime_ != nullptr) {
    std::vector<int32_t> cut = StageCutOf(*runtime_, model_, inputs.recipe, inputs.plan);
    if (!cut.empty()) return cut;
  }
  if (stages == 1) return std::vector<int32_t>{layers};
  if (stages == layers) return std::vector<int32_t>(layers, 1);
  WEFT_ASSIGN_OR_RETURN(const RankKinds kinds, MixedKindsOf(inputs));
  const bool is_mixed = !kinds.kinds.empty();
  // With several kinds of devices, the order of the axes decides which kinds the ranks of a stage are on.
  const std::string key =
      absl::StrCat(KeyOf(inputs), is_mixed ? " on kinds " + inputs.plan.mesh().SerializeAsString() : std::string());
  auto found = cut_costs_.find(key);
  if (found == cut_costs_.end())
    found = cut_costs_.emplace(key, CutCostsOf(inputs, {short_model_, short_runs_}, runs_, kinds)).first;
  WEFT_RETURN_IF_ERROR(found->second.status());
  if (is_mixed) return CutOverKinds(inputs, model_, kinds, *found->second);
  const KindCosts& costs = found->second->front();
  return BalancedPartition(costs.layers, stages, costs.recompute);
}

absl::StatusOr<PlanMemory> MemoryEstimator::EstimateWith(const PlanInputs& inputs,
                                                         const std::vector<int32_t>& layers_per_stage,
                                                         bool fullest_only) {
  const ShortSchedule shortened = Shorten(inputs);
  const PipelineSchedule& schedule = shortened.schedule;
  const BackwardForms backwards = BackwardsOf(schedule);
  // Figures by rank for short stages, and the layers of each stage.
  struct Sized {
    std::vector<RankFigures> ranks;
    std::vector<int32_t> layers_of_stage;
  };
  const Shortener shortener(model_, runs_, inputs.plan);
  const std::vector<bool> wanted =
      fullest_only ? FullestOfEachForm(schedule, layers_per_stage) : std::vector<bool>(schedule.order.size(), true);
  const auto shortened_to = [&](int32_t (Shortener::*length)(int32_t, bool) const) -> absl::StatusOr<Sized> {
    const StageForms forms = FormsOfStages(
        runs_, layers_per_stage, [&](int32_t layers, bool mixed) { return (shortener.*length)(layers, mixed); });
    std::string key = absl::StrCat(KeyOf(inputs), backwards.whole, backwards.split);
    for (const std::vector<int32_t>& form : forms.layers) absl::StrAppend(&key, ";", absl::StrJoin(form, ","));
    auto found = forms_.find(key);
    if (found == forms_.end()) {
      const std::vector<int32_t> needed = forms.LayersPerRun();
      const bool is_short = *std::max_element(needed.begin(), needed.end()) <= kShortModel;
      const ModelRuns model = is_short ? ModelRuns{short_model_, short_runs_} : ModelRuns{model_, runs_};
      found = forms_.emplace(key, CompileForms(inputs, model, forms, backwards)).first;
    }
    WEFT_RETURN_IF_ERROR(found->second.status());
    const Program& compiled = *found->second;
    WEFT_ASSIGN_OR_RETURN(const std::vector<StageParts> parts, PartsOfForms(compiled));
    Program lists;
    *lists.mutable_mesh() = inputs.plan.mesh();
    *lists.mutable_segments() = compiled.segments();
    WriteLists({.parts = parts,
                .form_of_stage = forms.form_of_stage,
                .schedule = schedule,
                .plan = inputs.plan,
                .microbatches = shortened.microbatches,
                .wanted = wanted},
               &lists);
    Sized sized;
    for (const Template& t : lists.templates()) sized.ranks.push_back(FiguresOf(lists, t, runtime_));
    const std::vector<int32_t> of_form = forms.LayersPerForm();
    for (const int form : forms.form_of_stage) sized.layers_of_stage.push_back(of_form[form]);
    return sized;
  };
  WEFT_ASSIGN_OR_RETURN(const Sized large, shortened_to(&Shortener::Large));
  PlanMemory memory;
  memory.basis = Basis::kEstimated;
  memory.error = ErrorOf(inputs, backwards);
  std::optional<Sized> small;
  memory.ranks.resize(large.ranks.size());
  for (size_t rank = 0; rank < large.ranks.size(); ++rank) {
    if (!wanted[rank]) continue;
    const auto layers = [&](const std::vector<int32_t>& of_stage) {
      return static_cast<double>(LayersOfRank(schedule, static_cast<int>(rank), of_stage));
    };
    const double all = layers(layers_per_stage), of_large = layers(large.layers_of_stage);
    RankFigures figures = large.ranks[rank];
    if (all > of_large) {
      if (!small) {
        WEFT_ASSIGN_OR_RETURN(small, shortened_to(&Shortener::Small));
      }
      const double step = of_large - layers(small->layers_of_stage);
      figures = Extrapolate(small->ranks[rank], figures, step > 0 ? (all - of_large) / step : 0);
    }
    memory.ranks[rank] = RankMemoryOf(figures, runtime_);
  }
  return memory;
}

absl::StatusOr<PlanMemory> MemoryEstimator::Compile(const Recipe& recipe, const Plan& plan, bool quickly) const {
  Plan cut = plan;
  if (runtime_ != nullptr) CutStagesAs(*runtime_, model_, recipe, &cut);
  WEFT_ASSIGN_OR_RETURN(PlanInputs inputs, ResolveInputs(model_, recipe, cut, cluster_, /*notes=*/nullptr));
  inputs.cost = cost_;
  const bool evaluation = runtime_ == nullptr;
  WEFT_RETURN_IF_ERROR(Resolve(inputs, evaluation, runtime_, /*notes=*/nullptr).status());
  inputs.quick_arenas = quickly;
  WEFT_ASSIGN_OR_RETURN(const Evaluation made,
                        Evaluate({.inputs = inputs, .evaluation = evaluation, .simulate = false}));
  return MemoryOfProgram(made.program, runtime_);
}

}  // namespace weft::planner
