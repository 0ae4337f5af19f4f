#include "simulator/compare/programs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulator/program/idle_reason.h"

namespace weft::sim {
namespace {

// The time that one program spends in the isolated repetition, in seconds, mean over ranks.
struct Spent {
  double computation = 0, slowed = 0, exposed = 0;
  double idle[kIdleReasons] = {};
};

Spent MeanOverRanks(const SimulationReport& report) {
  Spent mean;
  for (const RankReport& rank : report.per_rank()) {
    mean.computation += rank.busy_seconds() - rank.slowed_seconds();
    mean.slowed += rank.slowed_seconds();
    mean.exposed += rank.exposed_communication_seconds();
    for (const IdleCause& cause : rank.idle_causes()) {
      for (int reason = 0; reason < kIdleReasons; ++reason) {
        if (IdleReasonName(static_cast<IdleReason>(reason)) == cause.cause()) mean.idle[reason] += cause.seconds();
      }
    }
  }
  const double ranks = std::max(1, report.per_rank_size());
  for (double* sum : {&mean.computation, &mean.slowed, &mean.exposed}) *sum /= ranks;
  for (double& sum : mean.idle) sum /= ranks;
  return mean;
}

// Returns the number of optimizer steps in an iteration (rule P14).
double StepsOf(const SimulationReport& report) { return std::max(1, report.steps_per_repetition()); }

std::vector<std::pair<std::string, double>> SourcesOfStep(const SimulationReport& report, const Spent& mean) {
  const double steps = StepsOf(report);
  std::vector<std::pair<std::string, double>> sources = {{"computation", mean.computation / steps},
                                                         {"slowed by collectives", mean.slowed / steps}};
  for (int reason = 0; reason < kIdleReasons; ++reason) {
    sources.push_back({std::string(IdleReasonName(static_cast<IdleReason>(reason))), mean.idle[reason] / steps});
  }
  // Two doubles that are equal apart from rounding count as equal: times are whole picoseconds (rule P12).
  const double apart = report.iteration_seconds() - report.makespan_seconds();
  sources.push_back({"steady state", std::abs(apart) < 0.5e-12 ? 0 : apart / steps});
  return sources;
}

}  // namespace

ProgramComparisonReport ComparePrograms(std::vector<SimulatedProgram> programs) {
  ProgramComparisonReport comparison;
  comparison.set_schema_version(1);
  comparison.set_cluster(programs[0].report.cluster());
  std::vector<std::vector<std::pair<std::string, double>>> sources;
  const double base = programs[0].report.tokens_per_second();
  for (SimulatedProgram& program : programs) {
    const Spent mean = MeanOverRanks(program.report);
    sources.push_back(SourcesOfStep(program.report, mean));
    ComparedProgram* row = comparison.add_programs();
    row->set_file(std::move(program.file));
    row->set_step_seconds(program.report.iteration_seconds() / StepsOf(program.report));
    row->set_gain(base > 0 ? program.report.tokens_per_second() / base - 1 : 0);
    row->set_exposed_communication_seconds(mean.exposed / StepsOf(program.report));
    *row->mutable_report() = std::move(program.report);
  }
  for (size_t s = 0; s < sources[0].size(); ++s) {
    const bool used = std::any_of(sources.begin(), sources.end(), [&](const auto& of) { return of[s].second != 0; });
    if (!used) continue;
    for (size_t i = 0; i < sources.size(); ++i) {
      TimeSpent* spent = comparison.mutable_programs(static_cast<int>(i))->add_sources();
      spent->set_source(sources[i][s].first);
      spent->set_seconds(sources[i][s].second);
      spent->set_difference(sources[i][s].second - sources[0][s].second);
    }
  }
  return comparison;
}

}  // namespace weft::sim
