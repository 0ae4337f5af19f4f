#include "tests/e2e/published_run.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "catalog/catalog.h"
#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "planner/compile.h"
#include "proto/io/io.h"
#include "proto/util/status.h"

namespace weft {
namespace {

bool IsBackward(ActionKind kind) {
  return kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT || kind == FORWARD_BACKWARD;
}

// Calls `visit` for each event of the first repetition whose action satisfies `counts`.
void ForEachEvent(const SimulatedRun& run, const std::function<bool(const Action&)>& counts,
                  const std::function<void(const TraceEvent&)>& visit) {
  std::map<std::string, std::set<int>> counted;
  for (const Template& t : run.program.templates()) {
    for (const Action& action : t.body()) {
      if (counts(action)) counted[t.name()].insert(action.id());
    }
  }
  for (const RankTrace& rank : run.simulation.trace->ranks()) {
    const std::set<int>& of_rank = counted[rank.template_name()];
    for (const TraceEvent& event : rank.events()) {
      if (event.repetition() == 0 && of_rank.count(event.action()) > 0) visit(event);
    }
  }
}

}  // namespace

absl::StatusOr<Cluster> CatalogCluster(const std::string& name) {
  WEFT_ASSIGN_OR_RETURN(const CatalogFile file, FindInCatalog("clusters", name));
  Cluster cluster;
  WEFT_RETURN_IF_ERROR(ParseMessage(file.content, name, &cluster));
  return cluster;
}

absl::StatusOr<SimulatedRun> RunOn(const PublishedRun& run, const Cluster& cluster) {
  WEFT_ASSIGN_OR_RETURN(const ModelGraph model, LoadModel(run.model));
  return RunOn(model, run, cluster);
}

absl::StatusOr<SimulatedRun> RunOn(const ModelGraph& model, const PublishedRun& run, const Cluster& cluster) {
  SimulatedRun made;
  made.cluster = cluster;
  Recipe recipe;
  WEFT_RETURN_IF_ERROR(ParseMessage(run.recipe, "recipe", &recipe));
  Plan plan;
  WEFT_RETURN_IF_ERROR(ParseMessage(run.plan, "plan", &plan));
  planner::CompileOptions options;
  options.allow_oom = run.allow_oom;
  options.evaluation = false;
  options.remedies = !run.allow_oom;
  options.notes = run.notes;
  WEFT_ASSIGN_OR_RETURN(made.program, planner::CompilePlan(model, recipe, plan, cluster, options));
  sim::SimulateOptions simulate;
  simulate.trace = run.trace;
  simulate.cost = run.cost;
  simulate.network = run.network;
  Runtime runtime;
  if (!run.runtime.empty()) {
    WEFT_ASSIGN_OR_RETURN(runtime, LoadRuntime(run.runtime));
    simulate.runtime = &runtime;
  }
  WEFT_ASSIGN_OR_RETURN(made.simulation, sim::Simulate(made.program, cluster, simulate));
  return made;
}

absl::StatusOr<SimulatedRun> Run(const PublishedRun& run) {
  WEFT_ASSIGN_OR_RETURN(const Cluster cluster, CatalogCluster(run.cluster));
  return RunOn(run, cluster);
}

int CollectiveSteps(const Program& program, ActionKind kind, Purpose purpose) {
  std::set<int> segments;
  for (const Template& t : program.templates()) {
    for (const Action& action : t.body()) {
      if (action.kind() == kind) segments.insert(action.segment());
    }
  }
  int steps = 0;
  for (int segment : segments) {
    for (const Step& step : program.segments(segment).steps()) {
      steps += step.has_collective() && step.collective().purpose() == purpose ? 1 : 0;
    }
  }
  return steps;
}

double LastBackwardSeconds(const SimulatedRun& run) {
  int64_t last = 0;
  ForEachEvent(
      run, [](const Action& action) { return IsBackward(action.kind()); },
      [&](const TraceEvent& event) { last = std::max(last, event.end_ps()); });
  return static_cast<double>(last) * 1e-12;
}

double GradientSyncSeconds(const SimulatedRun& run) {
  double seconds = 0;
  ForEachEvent(
      run, [](const Action& action) { return action.purpose() == GRADIENT_SYNC; },
      [&](const TraceEvent& event) { seconds += static_cast<double>(event.end_ps() - event.start_ps()) * 1e-12; });
  return seconds / static_cast<double>(run.simulation.report.ranks());
}

}  // namespace weft
