#include "planner/presets/candidates.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/inputs/stage_cut.h"
#include "planner/least_state_bytes.h"
#include "planner/search/layer_runs.h"
#include "proto/io/set_field.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"

namespace weft::planner {

std::vector<int64_t> DivisorsOf(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

std::vector<int64_t> MicrobatchSizes(const PresetRequest& request, int64_t most) {
  const int64_t own = request.recipe.microbatch_sequences();
  if (own > 0) return own <= most ? std::vector<int64_t>{own} : std::vector<int64_t>();
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= most; size *= 2) sizes.push_back(size);
  return sizes;
}

bool Allows(const PresetRequest& request, absl::string_view axis, int64_t size) {
  for (const MeshAxis& a : request.plan.mesh().axes()) {
    if (a.name() == axis) return std::max<int64_t>(1, a.size()) == size;
  }
  return true;
}

absl::Status CheckPlan(const PresetRequest& request, absl::string_view preset, absl::Span<const absl::string_view> axes,
                       bool chooses_schedule) {
  for (const MeshAxis& axis : request.plan.mesh().axes()) {
    if (axis.size() <= 1 || std::find(axes.begin(), axes.end(), axis.name()) != axes.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("plan.mesh: preset ", preset, " has no axis ", Quoted(axis.name()),
                                                   " (given size ", axis.size(),
                                                   "); its axes: ", absl::StrJoin(axes, ", ")));
  }
  if (chooses_schedule && (!request.plan.schedule().name().empty() || !request.plan.schedule().definition().empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.schedule = ", Quoted(request.plan.schedule().name()), ": preset ", preset,
                     " chooses the schedule itself; leave the schedule out, or leave out --preset"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PresetCandidate> MakeCandidate(const PresetRequest& request,
                                              absl::Span<const std::pair<absl::string_view, int64_t>> axes,
                                              const std::string& settings) {
  PresetCandidate candidate;
  FoundPlan& found = candidate.tried.found;
  found.recipe = request.recipe;
  found.plan = request.plan;
  found.plan.clear_mesh();
  for (const auto& [name, size] : axes) {
    if (size == 1) continue;
    MeshAxis* axis = found.plan.mutable_mesh()->add_axes();
    axis->set_name(std::string(name == "dp" ? "data" : name == "pp" ? "pipe" : name));
    axis->set_size(size);
    absl::StrAppend(&found.settings, found.settings.empty() ? "" : " ", name, "=", size);
  }
  if (found.settings.empty()) found.settings = "dp=1";
  for (const absl::string_view setting : absl::StrSplit(settings, ' ', absl::SkipEmpty())) {
    WEFT_RETURN_IF_ERROR(ApplySetting(setting, &found.recipe, &found.plan));
    absl::StrAppend(&found.settings, " ", setting);
  }
  return candidate;
}

std::string RecomputeSetting(const PresetRequest& request, absl::string_view mode) {
  return request.plan.has_recompute() ? "" : absl::StrCat(" recompute.mode=", mode);
}

int64_t BlocksOf(const ModelGraph& model) {
  return model.ops_size() == 0 ? 0 : int64_t{model.ops(model.ops_size() - 1).layer()} - 1;
}

int64_t ParametersOf(const ModelGraph& model) {
  int64_t parameters = 0;
  for (const GraphParameter& parameter : model.parameters()) {
    parameters += ElementCount(parameter.shape()).value_or(0);
  }
  return parameters;
}

void CutEvenly(const PresetRequest& request, int64_t stages, PresetCandidate* candidate) {
  const int64_t blocks = BlocksOf(request.context.model);
  if (request.plan.partition().layers_per_stage_size() > 0 || stages > blocks) return;
  const std::vector<int32_t> cut = LayersPerStage(blocks, stages);
  candidate->tried.found.plan.mutable_partition()->mutable_layers_per_stage()->Assign(cut.begin(), cut.end());
}

void Try(const PresetRequest& request, PresetCandidate* candidate) {
  candidate->tried = TryAsItIs(request.context, std::move(candidate->tried.found));
}

void TryIfStatesFit(const PresetRequest& request, PresetCandidate* candidate) {
  FoundPlan& found = candidate->tried.found;
  found.device_bytes = LeastStateBytes(found.recipe, found.plan, ParametersOf(request.context.model));
  if (found.device_bytes <= request.context.capacity) Try(request, candidate);
}

void TryAll(const PresetRequest& request, std::vector<PresetCandidate>* candidates) {
  ForAll(candidates->size(), request.context.threads, [&](size_t i) { Try(request, &(*candidates)[i]); });
}

size_t FastestOf(const std::vector<PresetCandidate>& candidates) {
  size_t fastest = candidates.size();
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].fits()) continue;
    const auto seconds = [&](size_t of) { return candidates[of].tried.found.report.iteration_seconds(); };
    if (fastest == candidates.size() || seconds(i) < seconds(fastest)) fastest = i;
  }
  return fastest;
}

absl::StatusOr<BlockProfile> ProfileOf(const PresetRequest& request, const PresetCandidate& candidate) {
  const std::vector<LayerRun> runs = RunsOfLayers(request.context.model);
  Plan plan = candidate.tried.found.plan;
  // An order of all messages may block a pipeline with as few stages as a profile's.
  plan.clear_transfer_order();
  const ShortModels models = ShortModelsOf(request.context.model, runs);
  const Recompute::Mode mode = plan.recompute().mode();
  if (mode != Recompute::FULL && mode != Recompute::SELECTIVE) plan.clear_recompute();
  return ProfileBlocks({.models = models,
                        .runs = runs,
                        .recipe = candidate.tried.found.recipe,
                        .plan = plan,
                        .cluster = request.context.cluster,
                        .cost = request.context.cost,
                        .network = request.context.network,
                        .runtime = request.context.runtime});
}

ModelCosts CostsOfModel(const BlockProfile& profile) {
  const LayerCosts all = profile.CostsOf(0, profile.layers(), /*sharded=*/false);
  return {.forward = static_cast<double>(all.forward) * 1e-12,
          .backward = static_cast<double>(all.backward) * 1e-12,
          .message_bytes = static_cast<double>(profile.activation_bytes)};
}

absl::StatusOr<AlphaBeta> LinkOf(const PresetRequest& request, absl::string_view preset) {
  const Cluster& cluster = request.context.cluster;
  const int64_t per_node = std::max<int64_t>(1, cluster.devices_per_node());
  const bool between = request.devices > per_node;
  const Link& link = between ? cluster.inter_node() : cluster.intra_node();
  if (!(link.bytes_per_second() > 0)) {
    return absl::FailedPreconditionError(absl::StrCat("cluster ", Quoted(cluster.name()), " has no ",
                                                      between ? "inter_node" : "intra_node",
                                                      ".bytes_per_second, which preset ", preset, " needs"));
  }
  double rate = link.bytes_per_second();
  if (between) {
    const auto nics = static_cast<double>(std::max<int64_t>(1, cluster.nics_per_node()));
    rate *= std::min(1.0, nics / static_cast<double>(per_node));
  }
  AlphaBeta figures = {.alpha = link.latency_seconds() + link.overhead_seconds()};
  if (const Runtime* runtime = request.context.runtime; runtime != nullptr) {
    const HostTransport& host = runtime->host_transport();
    if (host.bytes_per_second() > 0) rate = std::min(rate, host.bytes_per_second());
    figures.alpha += host.latency_seconds() + runtime->host().transfer_seconds();
  }
  figures.beta = 1 / rate;
  return figures;
}

}  // namespace weft::planner
