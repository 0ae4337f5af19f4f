#include "planner/search/plan_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/evaluate.h"
#include "proto/util/units_text.h"

namespace weft::planner {
namespace {

constexpr int kSchemaVersion = 1;

// "11,698,528"
std::string Grouped(int64_t count) {
  return count < 1000 ? absl::StrCat(count) : absl::StrFormat("%s,%03d", Grouped(count / 1000), count % 1000);
}

std::string Certificate(const PlanReport& report) {
  if (report.gap() <= 0) {
    return absl::StrCat("No plan of the ", Grouped(report.space()), " in this space simulates faster than the first.");
  }
  return absl::StrFormat("No plan of the %s in this space simulates more than %.2f %% faster than the first%s.",
                         Grouped(report.space()), std::max(0.01, 100 * report.gap()),
                         report.complete() ? "" : ", as far as was searched");
}

// What the first plan's iteration consists of.
std::string Limits(const PlannedRun& run) {
  const double compute = run.limits().costed_seconds() / run.iteration_seconds();
  const double sends = run.limits().communication_seconds() / run.iteration_seconds();
  return absl::StrFormat(
      "The busiest device of the first plan computes for %.0f %% of an iteration (at its peaks it would take %.0f %%); "
      "devices wait for %.0f %%; sending would take %.0f %% at full bandwidth.",
      100 * compute, 100 * run.limits().compute_seconds() / run.iteration_seconds(), 100 * run.bubble_ratio(),
      100 * sends);
}

}  // namespace

PlanReport ReportOf(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options,
                    const SearchResult& result) {
  PlanReport report;
  report.set_schema_version(kSchemaVersion);
  report.set_model(model.name());
  report.set_cluster(cluster.name());
  report.set_runtime(options.runtime == nullptr ? "weft" : options.runtime->name());
  report.set_network(options.network);
  report.set_cost(options.cost);
  report.set_devices(options.space.devices > 0 ? options.space.devices : cluster.nodes() * cluster.devices_per_node());
  report.set_capacity_bytes(options.memory_bytes > 0 ? std::min(options.memory_bytes, UsableBytes(cluster.device()))
                                                     : UsableBytes(cluster.device()));
  report.set_space(result.space);
  report.set_refused(result.refused);
  report.set_does_not_fit(result.unfit);
  report.set_slower(result.slower);
  report.set_simulated(result.simulated);
  report.set_open(result.open);
  for (const Dimension& dimension : result.dimensions) {
    SearchedDimension* searched = report.add_dimensions();
    searched->set_name(dimension.name);
    for (const Choice& choice : dimension.choices) searched->add_choices(choice.settings);
  }
  report.set_refusal(result.refusal);
  report.set_model_error(kModelError);
  if (result.plans.empty()) return report;
  report.set_lower_bound_seconds(result.least_seconds);
  report.set_gap(result.gap);
  report.set_complete(result.open == 0);
  const double best = result.plans.front().report.iteration_seconds();
  for (const FoundPlan& plan : result.plans) {
    PlannedRun* run = report.add_plans();
    run->set_settings(plan.settings);
    *run->mutable_plan() = plan.plan;
    run->set_microbatch_sequences(plan.recipe.microbatch_sequences());
    run->set_iteration_seconds(plan.report.iteration_seconds());
    run->set_tokens_per_second(plan.report.tokens_per_second());
    run->set_mfu(plan.report.mfu());
    run->set_bubble_ratio(plan.report.bubble_ratio());
    run->set_device_bytes(plan.device_bytes);
    *run->mutable_limits() = plan.report.bounds();
    run->set_equal_within_error(plan.report.iteration_seconds() <= best * (1 + kModelError));
  }
  return report;
}

std::string PlanReportText(const PlanReport& report) {
  std::string text =
      absl::StrFormat("%s on %d devices of %s (runtime %s, network %s, cost %s)\n\n", report.model(), report.devices(),
                      report.cluster(), report.runtime(), report.network(), report.cost());
  if (report.plans_size() > 0) {
    absl::StrAppendFormat(&text, "  %2s  %10s  %8s  %6s  %6s  %9s  %s\n", "", "iteration", "tokens/s", "MFU", "idle",
                          "memory", "plan");
  }
  int equal = 0;
  for (int i = 0; i < report.plans_size(); ++i) {
    const PlannedRun& run = report.plans(i);
    equal += run.equal_within_error() ? 1 : 0;
    absl::StrAppendFormat(&text, "  %2d  %10s  %8s  %4.1f %%  %4.1f %%  %9s  %s\n", i + 1,
                          SecondsText(run.iteration_seconds()), CountText(run.tokens_per_second()), 100 * run.mfu(),
                          100 * run.bubble_ratio(), BytesText(run.device_bytes()), run.settings());
  }
  if (report.plans_size() > 0) {
    absl::StrAppend(&text, "\n", Certificate(report), "\n", Limits(report.plans(0)), "\n");
    if (equal > 1) {
      absl::StrAppendFormat(&text,
                            "The first %d are equal within the model's error (%.1f %% in the median, "
                            "docs/accuracy.md): measure two or three of them.\n",
                            equal, 100 * report.model_error());
    }
  }
  absl::StrAppend(&text, "Of the ", Grouped(report.space()), " plans, ", Grouped(report.simulated()),
                  " were compiled, proven and simulated, ", Grouped(report.slower()),
                  " have a lower bound that is too "
                  "slow, ",
                  Grouped(report.does_not_fit()), " do not fit in ", BytesText(report.capacity_bytes()), ", ",
                  Grouped(report.refused()), " are refused, ", Grouped(report.open()), " were not reached.\n");
  if (report.refused() > 0) absl::StrAppend(&text, "A reason for refusals: ", report.refusal(), "\n");
  return text;
}

}  // namespace weft::planner
