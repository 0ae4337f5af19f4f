#include "planner/search/plan_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/search/device_kinds.h"
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
    return absl::StrCat("No plan that fits, of the ", Grouped(report.space()),
                        " in this space, simulates faster than the first.");
  }
  return absl::StrFormat(
      "No plan that fits, of the %s in this space, simulates more than %.2f %% faster than the first%s.",
      Grouped(report.space()), std::ceil(1e4 * report.gap()) / 100,
      report.complete() ? "" : "; the search was stopped early");
}

// Says how a popular kind of plan compares with the best plan, or why no plan of the kind was simulated.
std::string PopularLine(const PopularRun& run, const PlanReport& report) {
  if (run.iteration_seconds() > 0) {
    const bool is_first = report.plans_size() > 0 && run.settings() == report.plans(0).settings();
    const std::string slower = run.slower_by() > 0 ? absl::StrFormat("%.1f %% slower", 100 * run.slower_by())
                               : is_first          ? "the first plan itself"
                                                   : "as fast as the first plan";
    return absl::StrCat(run.kind(), ": ", SecondsText(run.iteration_seconds()), ", ", slower, " (", run.settings(),
                        ")");
  }
  if (run.device_bytes() > report.largest_capacity_bytes()) {
    return absl::StrCat(run.kind(), ": does not fit, takes ", BytesText(run.device_bytes()), " or more");
  }
  return absl::StrCat(run.kind(), run.device_bytes() > 0 ? ": was not tried" : ": refused");
}

// Says what the first plan's iteration consists of.
std::string Limits(const PlannedRun& run) {
  const double compute = run.limits().costed_seconds() / run.iteration_seconds();
  const double sends = run.limits().communication_seconds() / run.iteration_seconds();
  return absl::StrFormat(
      "The busiest device of the first plan computes for %.0f %% of an iteration (at its peaks it would take %.0f %%); "
      "devices wait for %.0f %%; sending would take %.0f %% at full bandwidth.",
      100 * compute, 100 * run.limits().compute_seconds() / run.iteration_seconds(), 100 * run.bubble_ratio(),
      100 * sends);
}

ChangedRun ChangedRunOf(const ChangedPlan& plan) {
  ChangedRun run;
  run.mutable_dimensions()->Add(plan.dimensions.begin(), plan.dimensions.end());
  run.set_settings(plan.settings);
  run.set_iteration_seconds(plan.iteration_seconds);
  run.set_device_bytes(plan.device_bytes);
  return run;
}

std::string TimeOrMisfit(const ChangedRun& run) {
  return run.iteration_seconds() > 0 ? SecondsText(run.iteration_seconds())
                                     : absl::StrCat("does not fit (", BytesText(run.device_bytes()), ")");
}

// Compares the user's plan with the first one, and says what to change.
std::string ChangesText(const ChangesReport& changes, double best) {
  const ChangedRun& start = changes.start();
  std::string text = absl::StrCat("Your plan: ", TimeOrMisfit(start));
  if (start.iteration_seconds() > 0) {
    absl::StrAppendFormat(&text, ", %.1f %% slower than the first", 100 * (start.iteration_seconds() / best - 1));
  }
  absl::StrAppend(&text, ".\n");
  const ChangedRun& change = changes.change();
  if (change.dimensions_size() > 0) {
    absl::StrAppendFormat(&text, "  The fewest changes with most of the gain: %s: %s.\n", change.settings(),
                          SecondsText(change.iteration_seconds()));
  }
  for (const ChangedRun& run : changes.single()) {
    absl::StrAppendFormat(&text, "  With %s alone: %s.\n", run.settings(), TimeOrMisfit(run));
  }
  return text;
}

// E.g. "links between nodes".
std::string NameOfFigure(absl::string_view figure) {
  if (figure == "nic") return "links between nodes";
  if (figure == "intra") return "links inside nodes";
  if (figure == "compute") return "matrix products";
  return "device memory";
}

// Says how wrong the cluster's figures may be.
std::string SensitivityText(const PlanReport& report) {
  std::string text, safe;
  for (const FigureSensitivity& of : report.sensitivities()) {
    const std::string name = NameOfFigure(of.figure());
    if (of.lower() == 0 && of.upper() == 0) {
      absl::StrAppend(&safe, safe.empty() ? "" : ", ", name);
      continue;
    }
    for (const auto& [factor, settings] :
         {std::make_pair(of.lower(), of.lower_settings()), std::make_pair(of.upper(), of.upper_settings())}) {
      if (factor == 0) continue;
      absl::StrAppendFormat(&text, "  If %s were %.2f times as fast as stated, this would be the fastest: %s\n", name,
                            factor, settings);
    }
  }
  if (!safe.empty()) {
    absl::StrAppend(&text, "  The first stays the fastest of them from 0.25 to 4 times the stated speed of ", safe,
                    ".\n");
  }
  return text;
}

std::string CostText(const PlanReport& report, const FrontRun& run) {
  if (report.objective() == "dollars") return absl::StrFormat("%.4g dollars", run.cost());
  if (report.objective() == "energy") return absl::StrFormat("%.4g kJ", run.cost() / 1000);
  return SecondsText(run.cost());
}

// The unit of tokens_per_cost.
absl::string_view TokensPer(const PlanReport& report) {
  if (report.objective() == "dollars") return "tokens/dollar";
  if (report.objective() == "energy") return "tokens/J";
  return report.objective() == "goodput" ? "useful tokens/s" : "tokens/s";
}

// E.g. "77.11 GiB", or with several kinds of devices "37.25 GiB to 77.11 GiB".
std::string CapacityText(const PlanReport& report) {
  const std::string least = BytesText(report.capacity_bytes());
  return report.largest_capacity_bytes() <= report.capacity_bytes()
             ? least
             : absl::StrCat(least, " to ", BytesText(report.largest_capacity_bytes()));
}

// The best plan for each number of devices or memory limit.
std::string FrontText(const PlanReport& report) {
  std::string text = absl::StrFormat("  %8s  %10s  %10s  %14s  %15s  %6s  %s\n", "devices", "memory", "iteration",
                                     report.objective(), TokensPer(report), "gap", "plan");
  for (const FrontRun& point : report.front()) {
    absl::StrAppendFormat(&text, "  %8d  %10s  ", point.devices(), BytesText(point.capacity_bytes()));
    if (!point.has_run()) {
      absl::StrAppend(&text, "no plan: ", point.refusal(), "\n");
      continue;
    }
    absl::StrAppendFormat(&text, "%10s  %14s  %15s  %4.1f %%  %s\n", SecondsText(point.run().iteration_seconds()),
                          CostText(report, point), CountText(point.tokens_per_cost()), 100 * point.gap(),
                          point.run().settings());
  }
  return text + "\n";
}

}  // namespace

PlannedRun PlannedRunOf(const FoundPlan& plan, double best_seconds) {
  PlannedRun run;
  run.set_settings(plan.settings);
  *run.mutable_plan() = plan.plan;
  run.set_microbatch_sequences(plan.recipe.microbatch_sequences());
  run.set_iteration_seconds(plan.report.iteration_seconds());
  run.set_tokens_per_second(plan.report.tokens_per_second());
  run.set_mfu(plan.report.mfu());
  run.set_bubble_ratio(plan.report.bubble_ratio());
  run.set_device_bytes(plan.device_bytes);
  *run.mutable_limits() = plan.report.bounds();
  run.set_equal_within_error(plan.report.iteration_seconds() <= best_seconds * (1 + kModelError));
  return run;
}

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
  const CapacityRange capacities = CapacitiesOfDevices(cluster, report.devices(), options.memory_bytes);
  report.set_capacity_bytes(capacities.least);
  report.set_largest_capacity_bytes(capacities.most);
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
  for (const FoundPlan& plan : result.plans) *report.add_plans() = PlannedRunOf(plan, best);
  const auto settings = [&](double factor, size_t plan) { return factor == 0 ? "" : result.plans[plan].settings; };
  for (const Sensitivity& of : result.sensitivities) {
    FigureSensitivity* figure = report.add_sensitivities();
    figure->set_figure(of.figure);
    figure->set_lower(of.lower);
    figure->set_lower_settings(settings(of.lower, of.lower_plan));
    figure->set_upper(of.upper);
    figure->set_upper_settings(settings(of.upper, of.upper_plan));
  }
  if (result.larger) {
    *report.mutable_larger() = PlannedRunOf(*result.larger, best);
    report.set_larger_memory_bytes(result.larger->device_bytes + cluster.device().reserved_bytes());
  }
  if (result.changes) {
    ChangesReport* changes = report.mutable_changes();
    *changes->mutable_start() = ChangedRunOf(result.changes->start);
    *changes->mutable_change() = ChangedRunOf(result.changes->change);
    for (const ChangedPlan& plan : result.changes->single) *changes->add_single() = ChangedRunOf(plan);
  }
  for (const PopularPlan& plan : result.popular) {
    PopularRun* run = report.add_popular();
    run->set_kind(plan.kind);
    run->set_settings(plan.settings);
    run->set_iteration_seconds(plan.iteration_seconds);
    if (plan.iteration_seconds > 0) run->set_slower_by(plan.iteration_seconds / best - 1);
    run->set_device_bytes(plan.device_bytes);
  }
  return report;
}

PlanReport ReportOf(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options, const Front& front,
                    const Objective& objective) {
  const auto options_of = [&](const FrontPoint& point) {
    SearchOptions at = options;
    at.space.devices = point.devices;
    at.memory_bytes = point.memory_bytes;
    return at;
  };
  const FrontPoint& best = front.points[front.best];
  PlanReport report = ReportOf(model, cluster, options_of(best), best.result);
  report.set_objective(objective.name);
  if (objective.name != "time") {
    for (int i = 0; i < report.plans_size(); ++i) {
      const FoundPlan& plan = best.result.plans[i];
      const absl::StatusOr<double> cost = objective.cost(model, cluster, options_of(best), plan);
      if (!cost.ok()) continue;
      report.mutable_plans(i)->set_tokens_per_cost(static_cast<double>(plan.report.tokens_per_step()) / *cost);
    }
  }
  for (const FrontPoint& point : front.points) {
    FrontRun* run = report.add_front();
    run->set_devices(point.devices);
    run->set_capacity_bytes(point.memory_bytes);
    if (point.result.plans.empty()) {
      run->set_refusal(point.result.stopped ? "the search was stopped before it found one"
                       : point.result.unfit > 0
                           ? absl::StrCat("the smallest takes at least ", BytesText(point.result.least_unfit_bytes))
                           : point.result.refusal);
      continue;
    }
    const FoundPlan& plan = point.result.plans.front();
    *run->mutable_run() = PlannedRunOf(plan, plan.report.iteration_seconds());
    run->set_gap(point.result.gap);
    run->set_cost(point.cost);
    run->set_tokens_per_cost(static_cast<double>(plan.report.tokens_per_step()) / point.cost);
  }
  return report;
}

std::string PlanReportText(const PlanReport& report) {
  std::string text =
      absl::StrFormat("%s on %d devices of %s (runtime %s, network %s, cost %s)\n\n", report.model(), report.devices(),
                      report.cluster(), report.runtime(), report.network(), report.cost());
  if (report.front_size() > 0) {
    absl::StrAppend(&text, FrontText(report), "The plans of the search with the lowest cost (", report.objective(),
                    "):\n");
  }
  const bool costs = !report.objective().empty() && report.objective() != "time";
  const auto cost_column = [&](const std::string& cell) { return costs ? absl::StrFormat("%15s  ", cell) : ""; };
  if (report.plans_size() > 0) {
    absl::StrAppendFormat(&text, "  %2s  %10s  %8s  %s%6s  %6s  %9s  %s\n", "", "iteration", "tokens/s",
                          cost_column(std::string(TokensPer(report))), "MFU", "idle", "memory", "plan");
  }
  int equal = 0;
  for (int i = 0; i < report.plans_size(); ++i) {
    const PlannedRun& run = report.plans(i);
    equal += run.equal_within_error() ? 1 : 0;
    absl::StrAppendFormat(&text, "  %2d  %10s  %8s  %s%4.1f %%  %4.1f %%  %9s  %s\n", i + 1,
                          SecondsText(run.iteration_seconds()), CountText(run.tokens_per_second()),
                          cost_column(run.tokens_per_cost() > 0 ? CountText(run.tokens_per_cost()) : "-"),
                          100 * run.mfu(), 100 * run.bubble_ratio(), BytesText(run.device_bytes()), run.settings());
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
  if (report.sensitivities_size() > 0) {
    absl::StrAppend(&text, "How wrong may the cluster's figures be before another of these plans is the fastest?\n",
                    SensitivityText(report));
  }
  if (report.has_changes()) {
    absl::StrAppend(&text, ChangesText(report.changes(), report.plans(0).iteration_seconds()));
  }
  if (report.popular_size() > 0) absl::StrAppend(&text, "Popular choices:\n");
  for (const PopularRun& run : report.popular()) {
    absl::StrAppend(&text, "  ", PopularLine(run, report), "\n");
  }
  if (report.has_larger()) {
    const PlannedRun& larger = report.larger();
    absl::StrAppendFormat(
        &text,
        "With devices of %s (device.memory_bytes = %d or more), this plan would take %s, %.1f %% "
        "less: %s\n",
        BytesText(report.larger_memory_bytes()), report.larger_memory_bytes(), SecondsText(larger.iteration_seconds()),
        100 * (1 - larger.iteration_seconds() / report.plans(0).iteration_seconds()), larger.settings());
  }
  absl::StrAppend(&text, "The space has ", Grouped(report.space()), " plans: ", Grouped(report.simulated()),
                  " were compiled, proven and simulated, ", Grouped(report.slower()),
                  " have a lower bound that is too slow, ", Grouped(report.does_not_fit()), " do not fit in ",
                  CapacityText(report), ", ", Grouped(report.refused()), " are refused, ", Grouped(report.open()),
                  " were not reached.\n");
  if (report.refused() > 0) absl::StrAppend(&text, "A reason for refusals: ", report.refusal(), "\n");
  return text;
}

}  // namespace weft::planner
