#include "planner/search/space.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "proto/io/set_field.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/validate.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {
namespace {

// The axes x, y and z of a replica together span at most this many nodes.
constexpr int64_t kMaxTensorNodes = 2;
// Larger microbatches are not tried.
constexpr int64_t kMaxMicrobatch = 64;

constexpr absl::string_view kMeshName = "mesh";
constexpr absl::string_view kMicrobatchName = "microbatch";
constexpr absl::string_view kScheduleName = "schedule";

// Schedules that every runtime of the catalog knows, and those that weft's own executor adds.
constexpr std::array<absl::string_view, 2> kCommonSchedules = {"1f1b", "interleaved"};
constexpr std::array<absl::string_view, 4> kMoreSchedules = {"zb-h1", "zb-v", "v-half", "chimera"};

absl::StatusOr<Choice> MakeChoice(std::string settings) {
  Choice choice;
  for (absl::string_view setting : absl::StrSplit(settings, ' ', absl::SkipEmpty())) {
    WEFT_RETURN_IF_ERROR(ApplySetting(setting, &choice.recipe, &choice.plan));
  }
  choice.settings = std::move(settings);
  return choice;
}

absl::StatusOr<Dimension> MakeDimension(absl::string_view name, const std::vector<std::string>& settings) {
  Dimension dimension{.name = std::string(name), .choices = {}};
  for (const std::string& setting : settings) {
    WEFT_ASSIGN_OR_RETURN(Choice choice, MakeChoice(setting));
    dimension.choices.push_back(std::move(choice));
  }
  return dimension;
}

std::vector<int64_t> Divisors(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

bool BatchDivides(const Recipe& recipe, const Plan& plan) {
  const int64_t data = AxisSize(plan.mesh(), "data"), size = std::max<int64_t>(1, recipe.microbatch_sequences());
  return size <= recipe.global_batch_sequences() / data && recipe.global_batch_sequences() % (data * size) == 0;
}

bool HasStages(const Recipe&, const Plan& plan) { return AxisSize(plan.mesh(), "pipe") > 1; }
bool HasReplicas(const Recipe&, const Plan& plan) { return AxisSize(plan.mesh(), "data") > 1; }
bool HasTensorAxis(const Recipe&, const Plan& plan) {
  return AxisSize(plan.mesh(), "x") > 1 && AxisSize(plan.mesh(), "y") == 1;
}
bool ScheduleIsNeeded(const Recipe& recipe, const Plan& plan) {
  return HasStages(recipe, plan) && MicrobatchesOf(recipe, plan) > 0;
}

// Returns the size that the user fixes for an axis; 0 if the plan does not name the axis.
int64_t FixedSize(const Plan& plan, absl::string_view axis) {
  for (const MeshAxis& a : plan.mesh().axes()) {
    if (a.name() == axis) return std::max<int64_t>(1, a.size());
  }
  return 0;
}

// Returns the choice of a mesh. `axes` lists the axes innermost first, with the names that --set uses.
Choice MeshChoice(absl::Span<const std::pair<absl::string_view, int64_t>> axes) {
  Choice choice;
  for (const auto& [name, size] : axes) {
    if (size == 1) continue;
    MeshAxis* axis = choice.plan.mutable_mesh()->add_axes();
    axis->set_name(std::string(name == "dp" ? "data" : name == "pp" ? "pipe" : name));
    axis->set_size(size);
    absl::StrAppend(&choice.settings, choice.settings.empty() ? "" : " ", name, "=", size);
  }
  if (choice.settings.empty()) choice.settings = "dp=1";
  return choice;
}

// Returns all meshes of `devices` ranks. The axes x, y and z are innermost, because their collectives are the most
// frequent; then come replicas, and then stages, or the other way round.
std::vector<Choice> Meshes(const SpaceOptions& options, const Cluster& cluster, int64_t devices) {
  const int64_t per_node = std::max<int64_t>(1, cluster.devices_per_node());
  const auto fits = [&](absl::string_view axis, int64_t size) {
    const int64_t fixed = FixedSize(options.plan, axis);
    return fixed == 0 || fixed == size;
  };
  const bool order_is_fixed = FixedSize(options.plan, "data") > 0 && FixedSize(options.plan, "pipe") > 0;
  const auto& axes = options.plan.mesh().axes();
  // Within one node all places are alike, unless only some devices have direct links.
  const bool order_matters =
      devices > per_node || cluster.node_links().direct_size() > 0 || cluster.node_links().has_bridge();
  const bool pipe_first = order_is_fixed && std::find_if(axes.begin(), axes.end(), [](const MeshAxis& axis) {
                                              return axis.name() == "data" || axis.name() == "pipe";
                                            })->name() == "pipe";
  std::vector<Choice> meshes;
  for (const int64_t tensor : Divisors(devices)) {
    const bool fills_nodes = per_node % tensor == 0 || tensor % per_node == 0;
    if (!fills_nodes || tensor > kMaxTensorNodes * per_node) continue;
    for (const int64_t x : Divisors(tensor)) {
      for (const int64_t y : Divisors(tensor / x)) {
        const int64_t z = tensor / x / y;
        if (!fits("x", x) || !fits("y", y) || !fits("z", z) || (options.under_runtime && y * z > 1)) continue;
        for (const int64_t pipe : Divisors(devices / tensor)) {
          const int64_t data = devices / tensor / pipe;
          if (!fits("pipe", pipe) || !fits("data", data)) continue;
          const bool one_order = data == 1 || pipe == 1 || order_is_fixed || !order_matters;
          if (!one_order || !pipe_first) {
            meshes.push_back(MeshChoice({{"x", x}, {"y", y}, {"z", z}, {"dp", data}, {"pp", pipe}}));
          }
          if (!one_order || pipe_first) {
            meshes.push_back(MeshChoice({{"x", x}, {"y", y}, {"z", z}, {"pp", pipe}, {"dp", data}}));
          }
        }
      }
    }
  }
  return meshes;
}

std::vector<std::string> Microbatches(int64_t global_batch) {
  std::vector<std::string> settings;
  for (int64_t size = 1; size <= std::min(global_batch, kMaxMicrobatch); size *= 2) {
    settings.push_back(absl::StrCat("mbs=", size));
  }
  return settings;
}

// True if the schedule can be built for two ranks with this number of stages on each.
bool CanHaveStages(const ScheduleEntry& entry, int virtual_stages) {
  ScheduleParams params{.ranks = 2, .microbatches = 4};
  params.virtual_stages = virtual_stages;
  return BuildSchedule(entry, params).ok();
}

// Refuses schedules whose loss differs or whose order is not known.
absl::Status CheckSearched(const ScheduleEntry& entry) {
  const absl::StatusOr<PipelineSchedule> example = BuildSchedule(entry, {.ranks = 2, .microbatches = 4});
  if (!example.ok() || (!example->asynchrony && !example->message_driven)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("schedule ", Quoted(entry.name),
                   example->asynchrony ? " updates the weights without a flush, which changes the loss"
                                       : " chooses its order at run time, so its time has no bound",
                   "; weft plan searches schedules that flush and have a static order, e.g. 1f1b"));
}

absl::StatusOr<std::vector<std::string>> Schedules(const SpaceOptions& options) {
  std::vector<std::string> names = options.schedules;
  if (names.empty()) {
    for (const absl::string_view name : kCommonSchedules) names.emplace_back(name);
    for (const absl::string_view name : kMoreSchedules) {
      if (!options.under_runtime) names.emplace_back(name);
    }
  }
  std::vector<std::string> settings;
  for (const std::string& name : names) {
    WEFT_ASSIGN_OR_RETURN(const ScheduleEntry* entry, FindSchedule(name));
    WEFT_RETURN_IF_ERROR(CheckSearched(*entry));
    // Some schedules place a fixed number of stages on each rank.
    const bool any_stages =
        (entry->takes & kTakesVirtualStages) != 0 && CanHaveStages(*entry, 2) && CanHaveStages(*entry, 3);
    if (any_stages) {
      for (const int stages : {2, 3, 4, 5, 6, 8, 10, 12}) {
        settings.push_back(absl::StrCat("schedule=", name, " virtual=", stages));
      }
    } else if ((entry->takes & kTakesWaves) != 0) {
      for (const int waves : {1, 2, 4}) settings.push_back(absl::StrCat("schedule=", name, " waves=", waves));
    } else {
      settings.push_back(absl::StrCat("schedule=", name));
    }
  }
  return settings;
}

// Schedules with backwards in two halves.
absl::flat_hash_set<std::string> SplitSchedules() {
  absl::flat_hash_set<std::string> names;
  for (const ScheduleEntry& entry : weft::Schedules()) {
    const absl::StatusOr<PipelineSchedule> example = BuildSchedule(entry, {.ranks = 2, .microbatches = 4});
    if (!example.ok()) continue;
    const bool splits = std::any_of(example->order.begin(), example->order.end(), [](const std::vector<Slot>& order) {
      return std::any_of(order.begin(), order.end(),
                         [](const Slot& slot) { return slot.kind == SlotKind::kBackwardInput; });
    });
    if (splits) names.emplace(entry.name);
  }
  return names;
}

bool ScheduleIsFixed(const Plan& plan) {
  return !plan.schedule().name().empty() || !plan.schedule().definition().empty();
}

}  // namespace

int64_t MicrobatchesOf(const Recipe& recipe, const Plan& plan) {
  return recipe.global_batch_sequences() /
         (AxisSize(plan.mesh(), "data") * std::max<int64_t>(1, recipe.microbatch_sequences()));
}

absl::Status ResolveGiven(const Device& device, Recipe* recipe, Plan* plan) {
  const int64_t microbatch = recipe->microbatch_sequences();
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(recipe));
  recipe->set_microbatch_sequences(microbatch);
  Plan defaults;
  *defaults.mutable_precision() = plan->precision();
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&defaults, device));
  *plan->mutable_precision() = defaults.precision();
  return absl::OkStatus();
}

std::vector<std::string> DimensionNames() {
  return {std::string(kMeshName),
          std::string(kMicrobatchName),
          std::string(kScheduleName),
          "zero",
          "zero-group",
          "reshard",
          "sequence-parallel",
          "between-halves",
          "recompute",
          "offload"};
}

absl::StatusOr<Space> Space::Make(const SpaceOptions& options, const Cluster& cluster) {
  Space space;
  space.options_ = options;
  const int64_t available = cluster.nodes() * cluster.devices_per_node();
  const int64_t devices = options.devices > 0 ? options.devices : available;
  if (devices > available) {
    return absl::InvalidArgumentError(
        absl::StrCat("the search is for ", devices, " devices; cluster ", Quoted(cluster.name()), " has ", available));
  }
  const std::vector<std::string> names = DimensionNames();
  for (const std::string& excluded : options.excluded) {
    if (std::find(names.begin(), names.end(), excluded) != names.end()) continue;
    return absl::NotFoundError(
        absl::StrCat("no dimension is called ", Quoted(excluded), "; known: ", absl::StrJoin(names, ", ")));
  }
  using Predicate = std::function<bool(const Recipe&, const Plan&)>;
  using Copy = void (*)(const Recipe&, const Plan&, Recipe*, Plan*);
  const auto is_excluded = [&](absl::string_view name) {
    return std::find(options.excluded.begin(), options.excluded.end(), name) != options.excluded.end();
  };
  const auto add = [&](absl::string_view name, bool fixed, std::vector<std::string> settings, Predicate matters,
                       Predicate allowed, Copy copy) -> absl::Status {
    if (fixed || is_excluded(name)) settings = {""};
    WEFT_ASSIGN_OR_RETURN(Dimension dimension, MakeDimension(name, settings));
    dimension.matters = matters;
    dimension.allowed = allowed;
    dimension.copy = copy;
    space.dimensions_.push_back(std::move(dimension));
    return absl::OkStatus();
  };
  const Plan& plan = options.plan;
  // A dimension that is excluded keeps its default, here one sequence.
  if (is_excluded(kMicrobatchName) && options.recipe.microbatch_sequences() == 0) {
    space.options_.recipe.set_microbatch_sequences(1);
  }
  space.dimensions_.push_back({.name = std::string(kMeshName),
                               .choices = Meshes(options, cluster, devices),
                               .copy = [](const Recipe&, const Plan& from, Recipe*, Plan* plan) {
                                 *plan->mutable_mesh() = from.mesh();
                                 plan->clear_partition();
                               }});
  if (space.dimensions_.front().choices.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no mesh of ", devices, " devices has the axes that plan.mesh fixes: their product must divide ",
                     devices, ", and x, y and z must fill parts of nodes or at most ", kMaxTensorNodes,
                     " whole nodes of ", cluster.devices_per_node(), " devices"));
  }
  WEFT_RETURN_IF_ERROR(add(kMicrobatchName, options.recipe.microbatch_sequences() > 0,
                           Microbatches(options.recipe.global_batch_sequences()), nullptr, BatchDivides,
                           [](const Recipe& from, const Plan&, Recipe* recipe, Plan*) {
                             recipe->set_microbatch_sequences(from.microbatch_sequences());
                           }));
  if (!plan.schedule().name().empty()) {
    WEFT_ASSIGN_OR_RETURN(const ScheduleEntry* entry, FindSchedule(plan.schedule().name()));
    WEFT_RETURN_IF_ERROR(CheckSearched(*entry));
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<std::string> schedules, Schedules(options));
  WEFT_RETURN_IF_ERROR(add(kScheduleName, ScheduleIsFixed(plan), std::move(schedules), ScheduleIsNeeded, nullptr,
                           [](const Recipe&, const Plan& from, Recipe*, Plan* plan) {
                             plan->clear_schedule();
                             if (from.has_schedule()) *plan->mutable_schedule() = from.schedule();
                             plan->clear_partition();
                           }));
  WEFT_RETURN_IF_ERROR(add("zero", plan.has_zero(), {"", "zero.stage=1", "zero.stage=2", "zero.stage=3"}, HasReplicas,
                           nullptr, [](const Recipe&, const Plan& from, Recipe*, Plan* plan) {
                             const Zero before = plan->zero();
                             plan->clear_zero();
                             if (from.zero().stage() == 0) return;
                             *plan->mutable_zero() = before;
                             plan->mutable_zero()->set_stage(from.zero().stage());
                           }));
  // Groups within nodes: only a reduced gradient then crosses them.
  std::vector<std::string> groups = {""};
  for (const int64_t size : Divisors(cluster.devices_per_node())) {
    if (size > 1 && devices > cluster.devices_per_node()) groups.push_back(absl::StrCat("zero.group=", size));
  }
  const auto shards = [](const Recipe& recipe, const Plan& plan) {
    return HasReplicas(recipe, plan) && plan.zero().stage() >= 1;
  };
  const auto group_divides = [](const Recipe&, const Plan& plan) {
    const int64_t group = plan.zero().group(), data = AxisSize(plan.mesh(), "data");
    return group == 0 || (group < data && data % group == 0);
  };
  WEFT_RETURN_IF_ERROR(add("zero-group", plan.has_zero() || options.under_runtime, std::move(groups), shards,
                           group_divides, [](const Recipe&, const Plan& from, Recipe*, Plan* plan) {
                             if (plan->has_zero()) plan->mutable_zero()->set_group(from.zero().group());
                           }));
  WEFT_RETURN_IF_ERROR(add(
      "reshard", plan.has_zero() || options.under_runtime, {"", "zero.reshard=AFTER_BACKWARD", "zero.reshard=NEVER"},
      [](const Recipe& recipe, const Plan& plan) { return HasReplicas(recipe, plan) && plan.zero().stage() == 3; },
      nullptr,
      [](const Recipe&, const Plan& from, Recipe*, Plan* plan) {
        if (!plan->has_zero()) return;
        plan->mutable_zero()->set_reshard(from.zero().reshard());
        *plan->mutable_zero()->mutable_kept_layers() = from.zero().kept_layers();
      }));
  WEFT_RETURN_IF_ERROR(add("sequence-parallel", plan.sequence_parallel(), {"", "sequence_parallel=true"}, HasTensorAxis,
                           nullptr, [](const Recipe&, const Plan& from, Recipe*, Plan* plan) {
                             plan->set_sequence_parallel(from.sequence_parallel());
                           }));
  WEFT_RETURN_IF_ERROR(add(
      "between-halves", plan.between_halves() != OWN_ROWS || options.under_runtime,
      {"", "between_halves=GATHERED_ROWS", "between_halves=EVERYTHING"},
      [split = SplitSchedules()](const Recipe&, const Plan& plan) {
        return plan.sequence_parallel() && split.contains(plan.schedule().name());
      },
      nullptr,
      [](const Recipe&, const Plan& from, Recipe*, Plan* plan) { plan->set_between_halves(from.between_halves()); }));
  std::vector<std::string> recompute = {"recompute.mode=FIT"};
  // A framework chooses the form of its attention itself.
  if (plan.attention() == FUSED && !options.under_runtime) {
    recompute.emplace_back("recompute.mode=SELECTIVE attention=MATERIALIZED");
  }
  WEFT_RETURN_IF_ERROR(add("recompute", plan.has_recompute(), std::move(recompute), nullptr, nullptr,
                           [](const Recipe&, const Plan& from, Recipe*, Plan* plan) {
                             plan->clear_recompute();
                             if (from.has_recompute()) *plan->mutable_recompute() = from.recompute();
                             plan->set_attention(from.attention());
                           }));
  const bool has_host = cluster.host().bytes_per_second() > 0 && !options.under_runtime;
  WEFT_RETURN_IF_ERROR(add("offload", plan.has_offload() || !has_host, {"", "offload.optimizer=true"}, nullptr, nullptr,
                           [](const Recipe&, const Plan& from, Recipe*, Plan* plan) {
                             plan->clear_offload();
                             if (from.has_offload()) *plan->mutable_offload() = from.offload();
                           }));
  return space;
}

void Space::ForEach(absl::FunctionRef<void(const ChoiceIndices&, const Recipe&, const Plan&)> visit) const {
  ChoiceIndices candidate;
  Plan plan = options_.plan;
  plan.clear_mesh();
  Visit(candidate, options_.recipe, plan, visit);
}

void Space::Visit(ChoiceIndices& candidate, const Recipe& recipe, const Plan& plan,
                  absl::FunctionRef<void(const ChoiceIndices&, const Recipe&, const Plan&)> visit) const {
  if (candidate.size() == dimensions_.size()) {
    visit(candidate, recipe, plan);
    return;
  }
  const Dimension& dimension = dimensions_[candidate.size()];
  const bool matters = dimension.matters == nullptr || dimension.matters(recipe, plan);
  const size_t choices = matters ? dimension.choices.size() : 1;
  for (size_t i = 0; i < choices; ++i) {
    Recipe chosen_recipe = recipe;
    Plan chosen = plan;
    if (matters) {
      chosen_recipe.MergeFrom(dimension.choices[i].recipe);
      chosen.MergeFrom(dimension.choices[i].plan);
    }
    if (dimension.allowed != nullptr && !dimension.allowed(chosen_recipe, chosen)) continue;
    candidate.push_back(static_cast<uint16_t>(i));
    Visit(candidate, chosen_recipe, chosen, visit);
    candidate.pop_back();
  }
}

void Space::Apply(const ChoiceIndices& candidate, Recipe* recipe, Plan* plan) const {
  *recipe = options_.recipe;
  *plan = options_.plan;
  plan->clear_mesh();
  for (size_t i = 0; i < candidate.size(); ++i) {
    const Dimension& dimension = dimensions_[i];
    if (dimension.matters != nullptr && !dimension.matters(*recipe, *plan)) continue;
    recipe->MergeFrom(dimension.choices[candidate[i]].recipe);
    plan->MergeFrom(dimension.choices[candidate[i]].plan);
  }
}

std::string Space::SettingsOf(const ChoiceIndices& candidate) const {
  std::string settings;
  Recipe recipe = options_.recipe;
  Plan plan = options_.plan;
  plan.clear_mesh();
  for (size_t i = 0; i < candidate.size(); ++i) {
    const Dimension& dimension = dimensions_[i];
    if (dimension.matters != nullptr && !dimension.matters(recipe, plan)) continue;
    const Choice& choice = dimension.choices[candidate[i]];
    recipe.MergeFrom(choice.recipe);
    plan.MergeFrom(choice.plan);
    if (!choice.settings.empty()) absl::StrAppend(&settings, settings.empty() ? "" : " ", choice.settings);
  }
  return settings;
}

}  // namespace weft::planner
