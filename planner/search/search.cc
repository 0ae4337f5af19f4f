#include "planner/search/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/balanced_partition.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/inputs/plan_schedule.h"
#include "compiler/inputs/stage_cut.h"
#include "compiler/lower_program.h"
#include "planner/compile.h"
#include "planner/evaluate.h"
#include "planner/search/block_profile.h"
#include "planner/search/plan_bound.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/validate/validate.h"
#include "schedules/collective/plan.h"
#include "simulator/network/network_model.h"

namespace weft::planner {
namespace {

// Plans that are simulated at once, whatever the number of threads, so that the result does not depend on it.
constexpr size_t kRound = 4;
// Plans with the lowest bounds whose bounds are tight, and from which a round is taken.
constexpr size_t kFront = 64;

// Runs work(i) for i from 0 to count - 1 on some threads.
void ForAll(size_t count, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads && static_cast<size_t>(i) < count; ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
}

// A plan of the space that may be simulated.
struct Open {
  ChoiceIndices candidate;
  PlanBound bound;
  // TightenBound was tried.
  bool is_tight = false;
};

struct Tried {
  absl::Status status = absl::OkStatus();
  FoundPlan found = {};
  // By pipe rank.
  std::vector<int64_t> rank_bytes = {};
  bool fits = false;
};

class Searcher {
 public:
  Searcher(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options, Space space)
      : model_(model), cluster_(cluster), options_(options), space_(std::move(space)), runs_(RunsOfLayers(model)) {
    capacity_ = UsableBytes(cluster.device());
  }

  absl::StatusOr<SearchResult> Run();

 private:
  using Shape = absl::StatusOr<ScheduleShape>;
  using Profile = absl::StatusOr<BlockProfile>;
  // The schedule's fields, pipe ranks, microbatches.
  using ShapeKey = std::tuple<std::string, int64_t, int64_t>;

  absl::Status Resolve(const Recipe& asked, const Plan& asked_plan, Recipe* recipe, Plan* plan) const;
  static ShapeKey ShapeKeyOf(const Recipe& recipe, const Plan& plan);
  const Shape& ShapeFor(const Recipe& recipe, const Plan& plan) const;
  Shape MakeShape(const PlanSchedule& schedule, int64_t ranks, int64_t microbatches) const;
  void CollectShapes();
  const Profile& ProfileOf(const std::string& key) const { return *profiles_.at(key); }
  const std::vector<int32_t>& CutOf(const std::string& key, const BlockProfile& profile, const ScheduleShape& shape,
                                    const Recipe& recipe, const Plan& plan);
  void CollectProfiles();
  void BoundAll();
  absl::StatusOr<BoundInputs> InputsOf(const Recipe& recipe, const Plan& plan);
  NetworkTimes MakeNetworkTimes(const Mesh& mesh, const BlockProfile& profile, const std::string& collective) const;
  absl::StatusOr<PipelineSchedule> ScheduleFor(const PlanSchedule& schedule, int64_t ranks, int64_t microbatches) const;
  absl::Status Tighten(Open& open);
  Tried Try(const Open& open);
  Tried Judge(FoundPlan plan) const;
  void TightenFront();
  std::vector<Open> TakeRound();
  void SimulateInOrder();
  void Add(Tried tried);
  void Refuse(const absl::Status& status);
  void CountUnfit(int64_t bytes);
  bool IsDone(double least) const;
  void Report() const;

  const ModelGraph& model_;
  const Cluster& cluster_;
  const SearchOptions& options_;
  const Space space_;
  const std::vector<LayerRun> runs_;
  int64_t capacity_ = 0;
  std::map<std::string, std::unique_ptr<Profile>> profiles_;
  std::map<ShapeKey, std::unique_ptr<Shape>> shapes_;
  std::map<std::tuple<std::string, int, bool>, std::vector<int32_t>> cuts_;
  // By mesh and the bytes of the messages.
  std::map<std::tuple<std::string, int64_t, int64_t>, NetworkTimes> network_times_;
  std::vector<Open> open_;
  SearchResult result_;
};

// The plan with all layers recomputed, if the memory decides how many are; else nothing.
std::optional<Plan> AllRecomputed(const Plan& plan) {
  if (plan.recompute().mode() != Recompute::FIT) return std::nullopt;
  Plan recomputed = plan;
  recomputed.mutable_recompute()->set_mode(Recompute::FULL);
  return recomputed;
}

int64_t MicrobatchesOf(const Recipe& recipe, const Plan& plan) {
  return recipe.global_batch_sequences() /
         (AxisSize(plan.mesh(), "data") * std::max<int64_t>(1, recipe.microbatch_sequences()));
}

Searcher::ShapeKey Searcher::ShapeKeyOf(const Recipe& recipe, const Plan& plan) {
  return {plan.schedule().SerializeAsString(), AxisSize(plan.mesh(), "pipe"), MicrobatchesOf(recipe, plan)};
}

absl::StatusOr<PipelineSchedule> Searcher::ScheduleFor(const PlanSchedule& schedule, int64_t ranks,
                                                       int64_t microbatches) const {
  PlanSchedule asked = schedule;
  if (asked.name().empty() && asked.definition().empty()) asked.set_name("1f1b");
  return ScheduleOf(ChoiceOf(asked, static_cast<int>(ranks), static_cast<int>(microbatches), {}));
}

Searcher::Shape Searcher::MakeShape(const PlanSchedule& schedule, int64_t ranks, int64_t microbatches) const {
  const int64_t layers = runs_.back().first + runs_.back().layers;
  // A quick check before long lists are built.
  const int64_t stages = ranks * std::max(1, schedule.virtual_stages()) * std::max(1, 2 * schedule.waves());
  const auto too_many = [&](int64_t count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", count, " stages or more; the model has ", layers, " layers"));
  };
  if (stages > layers) return too_many(stages);
  WEFT_ASSIGN_OR_RETURN(const PipelineSchedule built, ScheduleFor(schedule, ranks, microbatches));
  if (built.message_driven) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule '", schedule.name(), "' has no static order, which the bounds of a search need"));
  }
  if (built.stages > layers) return too_many(built.stages);
  return ShapeOf(built, options_.runtime != nullptr && options_.runtime->memory().frees_between_halves());
}

const Searcher::Shape& Searcher::ShapeFor(const Recipe& recipe, const Plan& plan) const {
  return *shapes_.at(ShapeKeyOf(recipe, plan));
}

void Searcher::CollectShapes() {
  std::vector<std::pair<ShapeKey, PlanSchedule>> wanted;
  space_.ForEach([&](const ChoiceIndices&, const Recipe& recipe, const Plan& plan) {
    ++result_.space;
    ShapeKey key = ShapeKeyOf(recipe, plan);
    if (shapes_.try_emplace(key, nullptr).second) wanted.emplace_back(std::move(key), plan.schedule());
  });
  std::vector<std::unique_ptr<Shape>> made(wanted.size());
  ForAll(wanted.size(), options_.threads, [&](size_t i) {
    const auto& [name, ranks, microbatches] = wanted[i].first;
    made[i] = std::make_unique<Shape>(MakeShape(wanted[i].second, ranks, microbatches));
  });
  for (size_t i = 0; i < wanted.size(); ++i) shapes_[wanted[i].first] = std::move(made[i]);
}

const std::vector<int32_t>& Searcher::CutOf(const std::string& key, const BlockProfile& profile,
                                            const ScheduleShape& shape, const Recipe& recipe, const Plan& plan) {
  std::vector<int32_t>& cut = cuts_[{key, shape.stages, shape.split_backward}];
  if (!cut.empty()) return cut;
  cut.assign(plan.partition().layers_per_stage().begin(), plan.partition().layers_per_stage().end());
  if (cut.empty() && options_.runtime != nullptr) cut = StageCutOf(*options_.runtime, model_, recipe, plan);
  if (!cut.empty()) return cut;
  std::vector<int64_t> costs;
  for (const RunCosts& run : profile.runs) {
    const LayerCosts& layer = run.run.layers > 1 ? run.further : run.first;
    for (int32_t i = 0; i < run.run.layers; ++i) costs.push_back(layer.forward + layer.backward);
  }
  cut = BalancedPartition(costs, shape.stages).value_or(std::vector<int32_t>());
  return cut;
}

void Searcher::Refuse(const absl::Status& status) {
  ++result_.refused;
  if (result_.refusal.empty()) result_.refusal = std::string(status.message());
}

void Searcher::CountUnfit(int64_t bytes) {
  if (result_.unfit++ == 0 || bytes < result_.least_unfit_bytes) result_.least_unfit_bytes = bytes;
}

void Searcher::CollectProfiles() {
  struct Wanted {
    std::string key;
    Recipe recipe;
    Plan plan;
    bool split;
  };
  std::vector<Wanted> wanted;
  const auto want = [&](const Recipe& recipe, const Plan& plan, bool split) {
    std::string key = ProfileKey(recipe, plan, split);
    if (!profiles_.try_emplace(key, nullptr).second) return;
    wanted.push_back({std::move(key), recipe, plan, split});
  };
  space_.ForEach([&](const ChoiceIndices&, const Recipe& recipe, const Plan& plan) {
    const Shape& shape = ShapeFor(recipe, plan);
    if (!shape.ok()) return;
    want(recipe, plan, shape->split_backward);
    if (const std::optional<Plan> recomputed = AllRecomputed(plan)) want(recipe, *recomputed, shape->split_backward);
  });
  // One profile serves plans with and without sharded gradients.
  bool shards = false;
  space_.ForEach([&](const ChoiceIndices&, const Recipe&, const Plan& plan) {
    shards |= plan.zero().stage() >= 2 && AxisSize(plan.mesh(), "data") > 1;
  });
  std::vector<std::unique_ptr<Profile>> made(wanted.size());
  ForAll(wanted.size(), options_.threads, [&](size_t i) {
    made[i] = std::make_unique<Profile>(ProfileBlocks({.model = model_,
                                                       .runs = runs_,
                                                       .recipe = wanted[i].recipe,
                                                       .plan = wanted[i].plan,
                                                       .cluster = cluster_,
                                                       .cost = options_.cost,
                                                       .network = options_.network,
                                                       .runtime = options_.runtime,
                                                       .split_backward = wanted[i].split,
                                                       .sharded_gradients = shards}));
  });
  for (size_t i = 0; i < wanted.size(); ++i) profiles_[wanted[i].key] = std::move(made[i]);
  result_.profiles = static_cast<int64_t>(wanted.size());
}

NetworkTimes Searcher::MakeNetworkTimes(const Mesh& mesh, const BlockProfile& profile,
                                        const std::string& collective) const {
  NetworkTimes times;
  const int64_t pipe = AxisSize(mesh, "pipe"), data = AxisSize(mesh, "data");
  const absl::StatusOr<const sim::NetworkModelEntry*> entry = sim::FindNetworkModel(options_.network);
  const auto algorithm = FindCollective(collective.empty() ? "ring" : collective);
  if (!entry.ok() || !algorithm.ok()) return times;
  const std::unique_ptr<sim::NetworkModel> network = (*entry)->make(mesh, cluster_);
  // A framework may send less than the program.
  if (pipe > 1 && options_.runtime == nullptr) {
    const auto rank_of = [&](int64_t p) {
      std::vector<int64_t> coordinates;
      for (const MeshAxis& axis : mesh.axes()) coordinates.push_back(axis.name() == "pipe" ? p % pipe : 0);
      return CoordinatesRank(mesh, coordinates);
    };
    int64_t forward = std::numeric_limits<int64_t>::max(), backward = forward;
    for (int64_t p = 0; p < pipe; ++p) {
      const auto there = network->Transfer(rank_of(p), rank_of(p + 1), profile.activation_bytes);
      const auto back = network->Transfer(rank_of(p + 1), rank_of(p), profile.gradient_bytes);
      forward = std::min(forward, there.ok() ? there->occupancy.ps + there->latency.ps : 0);
      backward = std::min(backward, back.ok() ? back->occupancy.ps + back->latency.ps : 0);
    }
    times.forward_message = forward;
    times.backward_message = backward;
  }
  if (data > 1) {
    constexpr int64_t kElements = int64_t{1} << 26;
    sim::GroupForm form(mesh.axes_size());
    for (int i = 0; i < mesh.axes_size(); ++i) {
      if (mesh.axes(i).name() == "data") form[i].kind = sim::AxisPart::kAll;
    }
    const sim::CollectiveCall call{CollectiveKind::kAllReduce, *algorithm, {{kElements, 4}}};
    const auto time = network->Collective(call, form, sim::FormMembers(mesh, 0, form));
    if (time.ok()) times.sum_ps_per_byte = static_cast<double>(time->occupancy.ps) / (4.0 * kElements);
  }
  return times;
}

absl::StatusOr<BoundInputs> Searcher::InputsOf(const Recipe& recipe, const Plan& plan) {
  const Shape& shape = ShapeFor(recipe, plan);
  WEFT_RETURN_IF_ERROR(shape.status());
  const std::string key = ProfileKey(recipe, plan, shape->split_backward);
  const Profile& profile = ProfileOf(key);
  WEFT_RETURN_IF_ERROR(profile.status());
  const BlockProfile* recomputed = nullptr;
  if (const std::optional<Plan> all = AllRecomputed(plan)) {
    const Profile& found = ProfileOf(ProfileKey(recipe, *all, shape->split_backward));
    WEFT_RETURN_IF_ERROR(found.status());
    recomputed = &*found;
  }
  const std::vector<int32_t>& cut = CutOf(key, *profile, *shape, recipe, plan);
  if (cut.empty()) return absl::InvalidArgumentError("the model's layers cannot be cut into the plan's stages");
  const std::tuple<std::string, int64_t, int64_t> times_key(plan.mesh().SerializeAsString(), profile->activation_bytes,
                                                            profile->gradient_bytes);
  auto times = network_times_.find(times_key);
  if (times == network_times_.end()) {
    times = network_times_.emplace(times_key, MakeNetworkTimes(plan.mesh(), *profile, plan.collective())).first;
  }
  BoundInputs inputs{.profile = *profile,
                     .recomputed = recomputed,
                     .shape = *shape,
                     .layers_per_stage = cut,
                     .plan = plan,
                     .network = times->second,
                     .memory_bytes_per_second = cluster_.device().memory_bytes_per_second(),
                     .capacity = capacity_};
  const bool overlaps = !plan.overlap().has_reduce_scatter() || plan.overlap().reduce_scatter();
  inputs.sums_after_backward = options_.runtime == nullptr && plan.gradient_bucket_bytes() == 0;
  inputs.workspace_as_planned = options_.runtime == nullptr;
  inputs.whole_gradients =
      options_.runtime == nullptr && overlaps && plan.zero().stage() >= 2 && AxisSize(plan.mesh(), "data") > 1;
  if (options_.runtime != nullptr && options_.runtime->gathered_weight_bytes() > 0) {
    inputs.gathered_share = options_.runtime->gathered_weight_bytes();
  }
  return inputs;
}

void Searcher::BoundAll() {
  space_.ForEach([&](const ChoiceIndices& candidate, const Recipe& recipe, const Plan& plan) {
    const absl::StatusOr<BoundInputs> inputs = InputsOf(recipe, plan);
    if (!inputs.ok()) {
      Refuse(inputs.status());
      return;
    }
    PlanBound bound = BoundOf(*inputs);
    if (bound.least_bytes > capacity_ && !options_.exhaustive) {
      CountUnfit(bound.least_bytes);
    } else {
      open_.push_back({candidate, std::move(bound)});
    }
  });
}

absl::Status Searcher::Tighten(Open& open) {
  open.is_tight = true;
  Recipe recipe;
  Plan plan;
  space_.Apply(open.candidate, &recipe, &plan);
  WEFT_ASSIGN_OR_RETURN(const BoundInputs inputs, InputsOf(recipe, plan));
  const auto microbatches = static_cast<int>(MicrobatchesOf(recipe, plan));
  WEFT_ASSIGN_OR_RETURN(const PipelineSchedule schedule,
                        ScheduleFor(plan.schedule(), AxisSize(plan.mesh(), "pipe"), microbatches));
  return TightenBound(inputs, schedule, microbatches, &open.bound);
}

// Recomputes the first counts[p] layers of each pipe rank p. The layer of the loss is not recomputed.
void RecomputeFirst(const std::vector<std::vector<int32_t>>& layers, const std::vector<int>& counts, Plan& plan) {
  std::set<int32_t> chosen;
  for (size_t p = 0; p < layers.size(); ++p) chosen.insert(layers[p].begin(), layers[p].begin() + counts[p]);
  plan.mutable_recompute()->Clear();
  if (chosen.empty()) return;
  plan.mutable_recompute()->set_mode(Recompute::LAYERS);
  for (const int32_t layer : chosen) plan.mutable_recompute()->add_layers(layer);
}

// The layers of each pipe rank, ascending, without the layer of the loss.
std::vector<std::vector<int32_t>> LayersOfRanks(const ScheduleShape& shape, const std::vector<int32_t>& cut) {
  std::vector<std::vector<int32_t>> layers(shape.held.size());
  for (const std::vector<int>& lane : shape.placement) {
    int32_t layer = 0;
    for (size_t stage = 0; stage < cut.size(); ++stage) {
      for (const int32_t end = layer + cut[stage]; layer < end; ++layer) layers[lane[stage]].push_back(layer);
    }
  }
  const int32_t loss = std::accumulate(cut.begin(), cut.end(), -1);
  for (std::vector<int32_t>& of_rank : layers) {
    std::erase(of_rank, loss);
    std::sort(of_rank.begin(), of_rank.end());
  }
  return layers;
}

Tried Searcher::Try(const Open& open) {
  Tried tried;
  FoundPlan& found = tried.found;
  found.candidate = open.candidate;
  found.settings = space_.SettingsOf(open.candidate);
  found.least_seconds = open.bound.least_seconds;
  found.least_bytes = open.bound.least_bytes;
  found.estimated_seconds = open.bound.estimated_seconds;
  space_.Apply(open.candidate, &found.recipe, &found.plan);
  const ScheduleShape& shape = *ShapeFor(found.recipe, found.plan);
  const std::string key = ProfileKey(found.recipe, found.plan, shape.split_backward);
  const std::vector<int32_t>& cut = cuts_.at({key, shape.stages, shape.split_backward});
  found.plan.mutable_partition()->mutable_layers_per_stage()->Assign(cut.begin(), cut.end());
  if (found.plan.recompute().mode() != Recompute::FIT) return Judge(std::move(found));
  // The fewest layers that the bound allows, then more on the ranks that do not fit.
  const std::vector<std::vector<int32_t>> layers = LayersOfRanks(shape, cut);
  std::vector<int> counts(layers.size());
  for (size_t p = 0; p < counts.size(); ++p) {
    const double share = open.bound.recomputed_share[p] * static_cast<double>(layers[p].size());
    counts[p] = std::min(static_cast<int>(std::ceil(share)), static_cast<int>(layers[p].size()));
  }
  std::vector<int64_t> before;
  std::vector<int> counts_before;
  while (true) {
    RecomputeFirst(layers, counts, found.plan);
    tried = Judge(found);
    if (!tried.status.ok() || tried.fits) return tried;
    // By how much the bytes of a rank fell with each layer that was added, or a guess.
    const std::vector<int64_t>& bytes = tried.rank_bytes;
    std::vector<int> next = counts;
    bool grows = false;
    for (size_t p = 0; p < counts.size(); ++p) {
      const int64_t over = bytes[p] - capacity_;
      if (over <= 0 || counts[p] == static_cast<int>(layers[p].size())) continue;
      int64_t more = (static_cast<int64_t>(layers[p].size()) - counts[p] + 3) / 4;
      if (!before.empty() && counts[p] > counts_before[p] && before[p] > bytes[p]) {
        const int64_t of_layer = (before[p] - bytes[p]) / (counts[p] - counts_before[p]);
        more = (over + of_layer - 1) / std::max<int64_t>(1, of_layer);
      }
      next[p] = static_cast<int>(std::min<int64_t>(static_cast<int64_t>(layers[p].size()), counts[p] + more));
      grows = true;
    }
    if (!grows) return tried;
    before = bytes;
    counts_before = std::exchange(counts, std::move(next));
  }
}

Tried Searcher::Judge(FoundPlan plan) const {
  Tried tried{.found = std::move(plan)};
  FoundPlan& found = tried.found;
  const auto judge = [&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(PlanInputs inputs,
                          ResolveInputs(model_, found.recipe, found.plan, cluster_, /*notes=*/nullptr));
    inputs.cost = options_.cost;
    WEFT_RETURN_IF_ERROR(planner::Resolve(inputs, /*evaluation=*/true, options_.runtime, nullptr).status());
    WEFT_ASSIGN_OR_RETURN(const StepCost cost, CostsOf(inputs));
    WEFT_ASSIGN_OR_RETURN(Evaluation made, Evaluate({.inputs = inputs,
                                                     .cost = cost,
                                                     .evaluation = options_.runtime == nullptr,
                                                     .network = options_.network,
                                                     .runtime = options_.runtime,
                                                     .most_bytes = capacity_}));
    found.plan.mutable_recompute()->CopyFrom(inputs.plan.recompute());
    tried.rank_bytes = made.rank_bytes;
    found.device_bytes = *std::max_element(made.rank_bytes.begin(), made.rank_bytes.end());
    found.report = std::move(made.report);
    tried.fits = found.device_bytes <= capacity_ && (options_.runtime != nullptr || made.fits);
    return absl::OkStatus();
  };
  tried.status = judge();
  return tried;
}

void Searcher::Add(Tried tried) {
  if (!tried.status.ok()) {
    Refuse(tried.status);
  } else if (!tried.fits) {
    CountUnfit(tried.found.device_bytes);
  } else {
    ++result_.simulated;
    const auto faster = [](const FoundPlan& a, const FoundPlan& b) {
      return std::make_pair(a.report.iteration_seconds(), a.candidate) <
             std::make_pair(b.report.iteration_seconds(), b.candidate);
    };
    std::vector<FoundPlan>& plans = result_.plans;
    plans.insert(std::upper_bound(plans.begin(), plans.end(), tried.found, faster), std::move(tried.found));
    if (!options_.exhaustive && static_cast<int>(plans.size()) > options_.wanted) plans.pop_back();
  }
}

bool Searcher::IsDone(double least) const {
  if (options_.exhaustive || result_.plans.empty()) return false;
  return least >= result_.plans.front().report.iteration_seconds() * (1 - options_.gap);
}

void Searcher::Report() const {
  if (options_.on_progress == nullptr) return;
  SearchProgress progress{.plans = result_.space, .simulated = result_.simulated};
  if (!result_.plans.empty()) {
    progress.best_seconds = result_.plans.front().report.iteration_seconds();
    progress.gap = std::max(0.0, 1 - result_.least_seconds / progress.best_seconds);
  }
  options_.on_progress(progress);
}

void Searcher::TightenFront() {
  // Tightening moves plans back, so others come to the front.
  const auto by_bound = [](const Open& a, const Open& b) {
    return std::make_pair(a.bound.least_seconds, a.candidate) < std::make_pair(b.bound.least_seconds, b.candidate);
  };
  while (true) {
    const size_t front = std::min(kFront, open_.size());
    std::partial_sort(open_.begin(), open_.begin() + static_cast<int64_t>(front), open_.end(), by_bound);
    std::vector<Open*> loose;
    for (size_t i = 0; i < front && !IsDone(open_[i].bound.least_seconds); ++i) {
      if (!open_[i].is_tight) loose.push_back(&open_[i]);
    }
    if (loose.empty()) return;
    // A plan whose bound cannot be tightened keeps the one that it has.
    ForAll(loose.size(), options_.threads, [&](size_t i) { Tighten(*loose[i]).IgnoreError(); });
  }
}

std::vector<Open> Searcher::TakeRound() {
  // Half of a round has the lowest bounds: to close the gap, these must be simulated anyway. The other half has the
  // shortest estimates, so that there is a good answer early.
  std::vector<Open> round;
  const auto take = [&](size_t i) {
    round.push_back(std::move(open_[i]));
    open_.erase(open_.begin() + static_cast<int64_t>(i));
  };
  while (round.size() < kRound / 2 && !open_.empty()) take(0);
  while (round.size() < kRound && !open_.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < std::min(kFront, open_.size()); ++i) {
      if (open_[i].bound.estimated_seconds < open_[best].bound.estimated_seconds) best = i;
    }
    take(best);
  }
  return round;
}

void Searcher::SimulateInOrder() {
  while (true) {
    TightenFront();
    const double open = open_.empty() ? std::numeric_limits<double>::max() : open_.front().bound.least_seconds;
    result_.least_seconds =
        result_.plans.empty() ? open : std::min(open, result_.plans.front().report.iteration_seconds());
    Report();
    if (open_.empty() || IsDone(open)) break;
    if (options_.stop != nullptr && options_.stop()) {
      result_.stopped = true;
      break;
    }
    const std::vector<Open> round = TakeRound();
    std::vector<Tried> tried(round.size());
    ForAll(round.size(), options_.threads, [&](size_t i) { tried[i] = Try(round[i]); });
    for (Tried& one : tried) Add(std::move(one));
  }
  for (const Open& open : open_) ++(IsDone(open.bound.least_seconds) ? result_.slower : result_.open);
}

absl::StatusOr<SearchResult> Searcher::Run() {
  CollectShapes();
  CollectProfiles();
  BoundAll();
  if (result_.space == 0) {
    return absl::InvalidArgumentError(
        "the space has no plan: no number of replicas and microbatch size divide recipe.global_batch_sequences");
  }
  if (open_.empty() && result_.unfit == 0) return absl::InvalidArgumentError(result_.refusal);
  SimulateInOrder();
  if (!result_.plans.empty()) {
    result_.gap = std::max(0.0, 1 - result_.least_seconds / result_.plans.front().report.iteration_seconds());
  }
  result_.dimensions = space_.dimensions();
  return std::move(result_);
}

}  // namespace

absl::StatusOr<SearchResult> Search(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options) {
  SearchOptions resolved = options;
  WEFT_RETURN_IF_ERROR(Validate(cluster));
  Cluster limited = cluster;
  if (options.memory_bytes > 0 && options.memory_bytes < UsableBytes(cluster.device())) {
    limited.mutable_device()->set_memory_bytes(options.memory_bytes + cluster.device().reserved_bytes());
  }
  if (cluster.other_devices_size() > 0) {
    return absl::UnimplementedError(
        "cluster.other_devices: weft plan searches clusters of one kind of device; leave out the other devices");
  }
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&resolved.space.recipe));
  // Zero lets the search choose the microbatch.
  resolved.space.recipe.set_microbatch_sequences(options.space.recipe.microbatch_sequences());
  // The types of weights and gradients, which bounds need.
  Plan defaults;
  *defaults.mutable_precision() = resolved.space.plan.precision();
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&defaults, cluster.device()));
  *resolved.space.plan.mutable_precision() = defaults.precision();
  WEFT_ASSIGN_OR_RETURN(Space space, Space::Make(resolved.space, cluster));
  return Searcher(model, limited, resolved, std::move(space)).Run();
}

}  // namespace weft::planner
