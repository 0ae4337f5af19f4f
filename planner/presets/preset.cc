#include "planner/presets/preset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/evaluate.h"
#include "planner/search/plan_report.h"
#include "planner/search/space.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units_text.h"
#include "proto/validate/validate.h"

namespace weft::planner {
namespace {

constexpr int kSchemaVersion = 1;

constexpr Preset kPresets[] = {
    {"axonn", "Singh and Bhatele 2021, arXiv:2110.13005, sec. V",
     "the fewest pipeline ranks that fit with the optimizer states in host memory", ChooseByAxonn},
    {"axonn-4d", "Singh et al. 2023, arXiv:2305.13525, sec. V",
     "the fastest by simulation of the grids that rank first by equations 4 to 10", ChooseByAxonn4d},
    {"chimera", "Li and Hoefler 2021, arXiv:2107.06925, sec. 3.4",
     "the largest microbatch that fits, then replicas and stages by equation 1", ChooseByChimera},
    {"hanayo", "Liu et al. 2023, arXiv:2308.15762, sec. 5.2",
     "the fastest by simulation of all numbers of waves and of pipeline ranks", ChooseByHanayo},
};

absl::StatusOr<const Preset*> FindPreset(absl::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return &preset;
    names.emplace_back(preset.name);
  }
  return absl::NotFoundError(absl::StrCat("unknown preset ", Quoted(name), NameHelp(name, names)));
}

absl::Status NothingFits(const Preset& preset, const PresetChoice& choice, const SearchContext& context) {
  int64_t least = std::numeric_limits<int64_t>::max();
  std::string refusal;
  for (const PresetCandidate& candidate : choice.candidates) {
    if (candidate.tried.status.ok()) {
      least = std::min(least, candidate.tried.found.device_bytes);
    } else if (refusal.empty()) {
      refusal = std::string(candidate.tried.status.message());
    }
  }
  if (least == std::numeric_limits<int64_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("preset ", preset.name, ": every plan is refused: ", refusal));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "preset ", preset.name, ": no plan fits: of ", choice.candidates.size(), " plans the smallest takes ",
      BytesText(least), "; a device of ", Quoted(context.cluster.name()), " may use ", BytesText(context.capacity),
      "; use more devices (--gpus) or shorter sequences (--set seq=N)"));
}

PresetReport ReportOf(const Preset& preset, const PresetChoice& choice, const PresetRequest& request) {
  const SearchContext& context = request.context;
  PresetReport report;
  report.set_schema_version(kSchemaVersion);
  report.set_model(context.model.name());
  report.set_cluster(context.cluster.name());
  report.set_runtime(context.runtime == nullptr ? "weft" : context.runtime->name());
  report.set_network(context.network);
  report.set_cost(context.cost);
  report.set_devices(request.devices);
  report.set_capacity_bytes(context.capacity);
  report.set_preset(std::string(preset.name));
  report.set_paper(std::string(preset.paper));
  report.set_rule(std::string(preset.rule));
  report.set_chosen(static_cast<int32_t>(choice.chosen));
  const double best = choice.candidates[choice.chosen].tried.found.report.iteration_seconds();
  for (const PresetCandidate& candidate : choice.candidates) {
    PresetPlan* plan = report.add_plans();
    *plan->mutable_run() = PlannedRunOf(candidate.tried.found, best);
    plan->set_modeled_seconds(candidate.modeled_seconds);
    plan->set_figures(candidate.figures);
    plan->set_fits(candidate.fits());
    plan->set_refusal(std::string(candidate.tried.status.message()));
  }
  return report;
}

}  // namespace

absl::Span<const Preset> Presets() { return kPresets; }

absl::StatusOr<PresetReport> PlanByPreset(absl::string_view name, const ModelGraph& model, const Cluster& cluster,
                                          const SearchOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const Preset* preset, FindPreset(name));
  WEFT_RETURN_IF_ERROR(Validate(cluster));
  if (cluster.other_devices_size() > 0) {
    return absl::UnimplementedError(
        "cluster.other_devices: weft plan --preset is for clusters of one kind of device; leave out the other devices, "
        "or leave out --preset to search");
  }
  Cluster limited = cluster;
  if (options.memory_bytes > 0 && options.memory_bytes < UsableBytes(cluster.device())) {
    limited.mutable_device()->set_memory_bytes(options.memory_bytes + cluster.device().reserved_bytes());
  }
  const SearchContext context = {.model = model,
                                 .cluster = limited,
                                 .cost = options.cost,
                                 .network = options.network,
                                 .runtime = options.runtime,
                                 .capacity = UsableBytes(limited.device()),
                                 .threads = options.threads};
  PresetRequest request = {.context = context,
                           .recipe = options.space.recipe,
                           .plan = options.space.plan,
                           .devices = options.space.devices,
                           .wanted = options.wanted};
  WEFT_RETURN_IF_ERROR(ResolveGiven(cluster.device(), &request.recipe, &request.plan));
  const int64_t available = cluster.nodes() * cluster.devices_per_node();
  if (request.devices == 0) request.devices = available;
  if (request.devices > available) {
    return absl::InvalidArgumentError(absl::StrCat("the plan is for ", request.devices, " devices; cluster ",
                                                   Quoted(cluster.name()), " has ", available));
  }
  WEFT_ASSIGN_OR_RETURN(const PresetChoice choice, preset->choose(request));
  if (choice.chosen >= choice.candidates.size()) return NothingFits(*preset, choice, context);
  return ReportOf(*preset, choice, request);
}

std::string PresetReportText(const PresetReport& report) {
  std::string text =
      absl::StrFormat("%s on %d devices of %s (runtime %s, network %s, cost %s)\nPreset %s (%s): %s.\n\n",
                      report.model(), report.devices(), report.cluster(), report.runtime(), report.network(),
                      report.cost(), report.preset(), report.paper(), report.rule());
  size_t width = 4;
  for (const PresetPlan& plan : report.plans()) width = std::max(width, plan.run().settings().size());
  const auto time = [](double seconds) { return seconds > 0 ? SecondsText(seconds) : std::string("-"); };
  absl::StrAppendFormat(&text, "  %1s  %9s  %9s  %9s  %-*s  %s\n", "", "modeled", "simulated", "memory", width, "plan",
                        "by the paper");
  const PresetPlan* fastest = &report.plans(report.chosen());
  for (int i = 0; i < report.plans_size(); ++i) {
    const PresetPlan& plan = report.plans(i);
    const double simulated = plan.run().iteration_seconds();
    if (plan.fits() && simulated < fastest->run().iteration_seconds()) fastest = &plan;
    const std::string outcome = plan.fits() ? time(simulated) : plan.refusal().empty() ? "too large" : "refused";
    absl::StrAppendFormat(&text, "  %1s  %9s  %9s  %9s  %-*s  %s\n", i == report.chosen() ? "*" : "",
                          time(plan.modeled_seconds()), outcome,
                          plan.refusal().empty() ? BytesText(plan.run().device_bytes()) : "-", width,
                          plan.run().settings(), plan.figures());
  }
  const PresetPlan& chosen = report.plans(report.chosen());
  absl::StrAppend(&text, "\nThe preset chooses ", chosen.run().settings(), ": ",
                  SecondsText(chosen.run().iteration_seconds()), " simulated");
  if (chosen.modeled_seconds() > 0) {
    absl::StrAppend(&text, ", ", time(chosen.modeled_seconds()), " by its model (",
                    SignedPercentText(chosen.modeled_seconds() / chosen.run().iteration_seconds() - 1), ")");
  }
  absl::StrAppend(&text, ".\n");
  if (fastest == &chosen) {
    absl::StrAppend(&text, "No plan that it considered simulates faster.\n");
  } else {
    absl::StrAppendFormat(&text, "Of the plans that it considered, %s simulates %.1f %% faster: %s.\n",
                          fastest->run().settings(),
                          100 * (1 - fastest->run().iteration_seconds() / chosen.run().iteration_seconds()),
                          SecondsText(fastest->run().iteration_seconds()));
  }
  return text;
}

}  // namespace weft::planner
