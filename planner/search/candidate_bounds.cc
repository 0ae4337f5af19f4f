#include "planner/search/candidate_bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/balanced_partition.h"
#include "compiler/inputs/plan_schedule.h"
#include "compiler/inputs/stage_cut.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "schedules/collective/plan.h"
#include "simulator/network/network_model.h"

namespace weft::planner {
namespace {

absl::StatusOr<PipelineSchedule> ScheduleFor(const PlanSchedule& schedule, int64_t ranks, int64_t microbatches) {
  PlanSchedule asked = schedule;
  if (asked.name().empty() && asked.definition().empty()) asked.set_name("1f1b");
  return ScheduleOf(ChoiceOf(asked, static_cast<int>(ranks), static_cast<int>(microbatches), {}));
}

// True if the schedule's order depends on the costs of its slots, which are known only when the plan is compiled: then
// neither the times of its slots nor what a rank holds at a moment are known. Schedules with waves try several orders.
bool OrderFollowsCosts(const PlanSchedule& schedule) {
  const absl::StatusOr<const ScheduleEntry*> entry = FindSchedule(schedule.name());
  return schedule.definition().empty() && entry.ok() && ((*entry)->takes & kTakesWaves) != 0;
}

// Replaces the moments by what holds in any order: when a rank runs a backward of a stage, it holds the microbatch in
// this stage and in all stages before it, whose backwards come later.
void ForgetOrder(ScheduleShape* shape) {
  shape->held.assign(shape->held.size(), {});
  for (const std::vector<int>& lane : shape->placement) {
    std::vector<std::vector<std::pair<int, int64_t>>> before(shape->held.size());
    for (int stage = 0; stage < shape->stages; ++stage) {
      before[lane[stage]].emplace_back(stage, 1);
      shape->held[lane[stage]].push_back({.stage = stage, .saved = before[lane[stage]], .saved_gradients = {}});
    }
  }
}

// Returns the picoseconds for each further byte of a long collective over the axis `data`; 0 if the network cannot
// tell. The start-up time is left out, so that the result bounds several short ones too.
double TimePerByte(const sim::NetworkModel& network, const Mesh& mesh, CollectiveKind kind,
                   const CollectiveEntry& algorithm) {
  constexpr int64_t kElements = int64_t{1} << 26;
  sim::GroupForm form(mesh.axes_size());
  for (int i = 0; i < mesh.axes_size(); ++i) {
    if (mesh.axes(i).name() == "data") form[i].kind = sim::AxisPart::kAll;
  }
  const auto time = [&](int64_t elements) {
    const sim::CollectiveCall call{kind, &algorithm, {{elements, 4}}};
    return network.Collective(call, form, sim::FormMembers(mesh, 0, form));
  };
  const auto once = time(kElements), twice = time(2 * kElements);
  if (!once.ok() || !twice.ok()) return 0;
  return static_cast<double>(std::max<int64_t>(0, twice->occupancy.ps - once->occupancy.ps)) / (4.0 * kElements);
}

}  // namespace

CandidateBounds::CandidateBounds(const SearchContext& context, const Space& space)
    : context_(context), space_(space), profiles_(context) {}

CandidateBounds::Shape CandidateBounds::MakeShape(const PlanSchedule& schedule, int64_t ranks,
                                                  int64_t microbatches) const {
  const int64_t layers = profiles_.runs().back().first + profiles_.runs().back().layers;
  // Check this before long lists are built.
  const int64_t stages = ranks * std::max(1, schedule.virtual_stages()) * std::max(1, 2 * schedule.waves());
  const auto too_many = [&](int64_t count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", count, " stages or more; the model has ", layers, " layers"));
  };
  if (stages > layers) return too_many(stages);
  WEFT_ASSIGN_OR_RETURN(const PipelineSchedule built, ScheduleFor(schedule, ranks, microbatches));
  if (built.message_driven) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", Quoted(schedule.name()), " has no static order, which the bounds of a search need"));
  }
  if (built.stages > layers) return too_many(built.stages);
  ScheduleShape shape =
      planner::ShapeOf(built, context_.runtime != nullptr && context_.runtime->memory().frees_between_halves());
  if (OrderFollowsCosts(schedule)) ForgetOrder(&shape);
  return shape;
}

bool CandidateBounds::Prepare(const std::function<bool()>& stop) {
  BuildShapes();
  space_.ForEach([&](const ChoiceIndices&, const Recipe& recipe, const Plan& plan) {
    const Shape& shape = ShapeOf(recipe, plan);
    if (shape.ok()) profiles_.Add(recipe, plan, shape->split_backward);
  });
  return profiles_.MakeLargest(stop);
}

bool CandidateBounds::MakeProfiles(absl::Span<const std::pair<Recipe, Plan>> plans, const std::function<bool()>& stop) {
  return profiles_.Make(plans, stop);
}

void CandidateBounds::BuildShapes() {
  std::vector<std::pair<ShapeKey, PlanSchedule>> wanted;
  space_.ForEach([&](const ChoiceIndices&, const Recipe& recipe, const Plan& plan) {
    ++plans_;
    ShapeKey key(plan.schedule().SerializeAsString(), AxisSize(plan.mesh(), "pipe"), MicrobatchesOf(recipe, plan));
    if (shapes_.try_emplace(key, nullptr).second) wanted.emplace_back(std::move(key), plan.schedule());
  });
  std::vector<std::unique_ptr<Shape>> made(wanted.size());
  ForAll(wanted.size(), context_.threads, [&](size_t i) {
    const auto& [name, ranks, microbatches] = wanted[i].first;
    made[i] = std::make_unique<Shape>(MakeShape(wanted[i].second, ranks, microbatches));
  });
  for (size_t i = 0; i < wanted.size(); ++i) shapes_[wanted[i].first] = std::move(made[i]);
}

const absl::StatusOr<ScheduleShape>& CandidateBounds::ShapeOf(const Recipe& recipe, const Plan& plan) const {
  return *shapes_.at(
      {plan.schedule().SerializeAsString(), AxisSize(plan.mesh(), "pipe"), MicrobatchesOf(recipe, plan)});
}

std::vector<int32_t> CandidateBounds::MakeCut(const ProfilesOfKinds& profiles, const ScheduleShape& shape,
                                              const Recipe& recipe, const Plan& plan) const {
  const BlockProfile& profile = profiles.front().of_cut;
  const int stages = shape.stages;
  const auto& fixed = plan.partition().layers_per_stage();
  if (!fixed.empty()) {
    const bool covers = std::accumulate(fixed.begin(), fixed.end(), int64_t{0}) == profile.layers();
    return covers && fixed.size() == stages ? std::vector<int32_t>(fixed.begin(), fixed.end()) : std::vector<int32_t>();
  }
  if (context_.runtime != nullptr) {
    std::vector<int32_t> cut = StageCutOf(*context_.runtime, context_.model, recipe, plan);
    if (!cut.empty()) return cut;
  }
  if (context_.kinds != nullptr) {
    return CutByProfiles(profiles, context_.kinds->Of(plan.mesh()), shape.placement, plan);
  }
  return BalancedPartition(LayerTimes(profile), stages).value_or(std::vector<int32_t>());
}

CandidateBounds::NetworkKey CandidateBounds::NetworkKeyOf(const Plan& plan, const BlockProfile& profile) {
  return {plan.mesh().SerializeAsString(), profile.activation_bytes, profile.gradient_bytes};
}

NetworkTimes CandidateBounds::MakeNetworkTimes(const Plan& plan, const BlockProfile& profile) const {
  NetworkTimes times;
  const Mesh& mesh = plan.mesh();
  const int64_t pipe = AxisSize(mesh, "pipe");
  const absl::StatusOr<const sim::NetworkModelEntry*> entry = sim::FindNetworkModel(context_.network);
  const auto algorithm = FindCollective(plan.collective().empty() ? "ring" : plan.collective());
  if (!entry.ok() || !algorithm.ok()) return times;
  const std::unique_ptr<sim::NetworkModel> network = (*entry)->make(mesh, context_.cluster);
  // A framework may send less than the program.
  if (pipe > 1 && context_.runtime == nullptr) {
    int64_t forward = std::numeric_limits<int64_t>::max(), backward = forward;
    for (int64_t first = 0; first < MeshRanks(mesh); ++first) {
      if (AxisCoordinate(mesh, first, "pipe") != 0) continue;
      const auto rank_of = [&](int64_t p) {
        std::vector<int64_t> coordinates;
        for (const MeshAxis& axis : mesh.axes()) {
          coordinates.push_back(axis.name() == "pipe" ? p % pipe : AxisCoordinate(mesh, first, axis.name()));
        }
        return CoordinatesRank(mesh, coordinates);
      };
      for (int64_t p = 0; p < pipe; ++p) {
        const auto there = network->Transfer(rank_of(p), rank_of(p + 1), profile.activation_bytes);
        const auto back = network->Transfer(rank_of(p + 1), rank_of(p), profile.gradient_bytes);
        forward = std::min(forward, there.ok() ? there->occupancy.ps + there->latency.ps : 0);
        backward = std::min(backward, back.ok() ? back->occupancy.ps + back->latency.ps : 0);
      }
      // If all devices are alike, the bounds are those of the first replica. Else they are those of each replica.
      if (context_.kinds == nullptr) break;
    }
    times.forward_message = forward;
    times.backward_message = backward;
  }
  if (AxisSize(mesh, "data") > 1) {
    times.sum_ps_per_byte = TimePerByte(*network, mesh, CollectiveKind::kAllReduce, **algorithm);
    times.gather_ps_per_byte = TimePerByte(*network, mesh, CollectiveKind::kAllGather, **algorithm);
    times.scatter_ps_per_byte = TimePerByte(*network, mesh, CollectiveKind::kReduceScatter, **algorithm);
  }
  return times;
}

std::vector<BoundInputs> CandidateBounds::InputsOf(const Plan& plan, const ProfilesOfKinds& profiles,
                                                   const ScheduleShape& shape, const std::vector<int32_t>& cut,
                                                   const NetworkTimes& times) const {
  BoundInputs inputs{.profile = profiles.front().profile,
                     .recomputed = profiles.front().recomputed,
                     .shape = shape,
                     .layers_per_stage = cut,
                     .plan = plan,
                     .network = times,
                     .memory_bytes_per_second = context_.cluster.device().memory_bytes_per_second(),
                     .capacity = context_.capacity};
  const bool own = context_.runtime == nullptr;
  inputs.sums_after_backward = own && plan.gradient_bucket_bytes() == 0;
  inputs.workspace_as_planned = own;
  if (!own && context_.runtime->gathered_weight_bytes() > 0) {
    inputs.gathered_share = context_.runtime->gathered_weight_bytes();
  }
  if (context_.kinds == nullptr) return {inputs};
  const MeshKinds& mesh = context_.kinds->Of(plan.mesh());
  std::vector<BoundInputs> of_pipelines;
  for (const std::vector<int32_t>& pipeline : mesh.pipelines) {
    inputs.devices = DevicesOf(pipeline, mesh.capacities, *context_.kinds, profiles);
    of_pipelines.push_back(inputs);
  }
  return of_pipelines;
}

absl::StatusOr<PlanBound> CandidateBounds::Bound(const Recipe& recipe, const Plan& plan) {
  const Shape& shape = ShapeOf(recipe, plan);
  WEFT_RETURN_IF_ERROR(shape.status());
  WEFT_ASSIGN_OR_RETURN(const ProfilesOfKinds profiles, profiles_.For(recipe, plan));
  // Refusals of forms that the plan does not have do not matter.
  const bool sharded = plan.zero().stage() >= 2 && ReplicasThatShare(plan) > 1;
  for (const ProfileStore::Profiles& of_kind : profiles) {
    for (const BlockProfile* profile : {&of_kind.profile, of_kind.recomputed}) {
      if (profile == nullptr) continue;
      if (shape->split_backward) WEFT_RETURN_IF_ERROR(profile->halves);
      if (sharded) WEFT_RETURN_IF_ERROR(profile->sharded);
    }
  }
  const BlockProfile& profile = profiles.front().profile;
  std::vector<int32_t>& cut = cuts_[CutKeyOf(profiles.front().configuration, *shape, plan)];
  if (cut.empty()) cut = MakeCut(profiles, *shape, recipe, plan);
  if (cut.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the model's ", profile.layers(), " layers cannot be cut into ",
                                                   shape->stages, " stages as the plan or the runtime asks"));
  }
  const NetworkKey key = NetworkKeyOf(plan, profile);
  auto times = network_times_.find(key);
  if (times == network_times_.end()) {
    times = network_times_.emplace(key, MakeNetworkTimes(plan, profile)).first;
  }
  PlanBound bound = BoundOfPipelines(InputsOf(plan, profiles, *shape, cut, times->second));
  for (const ProfileStore::Profiles& of_kind : profiles) bound.is_loose |= of_kind.is_loose;
  return bound;
}

absl::Status CandidateBounds::Tighten(const Recipe& recipe, const Plan& plan, PlanBound* bound) const {
  if (OrderFollowsCosts(plan.schedule())) return absl::OkStatus();
  const Shape& shape = ShapeOf(recipe, plan);
  WEFT_RETURN_IF_ERROR(shape.status());
  WEFT_ASSIGN_OR_RETURN(const ProfilesOfKinds profiles, profiles_.For(recipe, plan));
  const auto microbatches = static_cast<int>(MicrobatchesOf(recipe, plan));
  WEFT_ASSIGN_OR_RETURN(const PipelineSchedule schedule,
                        ScheduleFor(plan.schedule(), AxisSize(plan.mesh(), "pipe"), microbatches));
  const std::vector<int32_t>& cut = cuts_.at(CutKeyOf(profiles.front().configuration, *shape, plan));
  const NetworkTimes& times = network_times_.at(NetworkKeyOf(plan, profiles.front().profile));
  for (const BoundInputs& inputs : InputsOf(plan, profiles, *shape, cut, times)) {
    WEFT_RETURN_IF_ERROR(TightenBound(inputs, schedule, microbatches, bound));
  }
  return absl::OkStatus();
}

CandidateBounds::CutKey CandidateBounds::CutKeyOf(const std::string& configuration, const ScheduleShape& shape,
                                                  const Plan& plan) const {
  // A framework's cut depends on how the schedule places its stages.
  std::string other = context_.runtime == nullptr ? "" : plan.schedule().SerializeAsString();
  if (context_.kinds != nullptr) {
    absl::StrAppend(&other, KeyOfMixedCut(context_.kinds->Of(plan.mesh()), shape.placement, plan));
  }
  return {configuration, shape.stages, std::move(other)};
}

const std::vector<int32_t>& CandidateBounds::CutOf(const Recipe& recipe, const Plan& plan) const {
  return cuts_.at(CutKeyOf(ConfigurationKey(plan), *ShapeOf(recipe, plan), plan));
}

}  // namespace weft::planner
