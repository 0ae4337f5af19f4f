// weft report: shows the contents of a trace, and how far a prediction was off, action by action.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/inputs/inputs.h"
#include "cli/results/trace_file.h"
#include "proto/io/json.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/units_text.h"
#include "simulator/compare/compare.h"
#include "simulator/cost/cost_model.h"
#include "simulator/simulate.h"

namespace weft {
namespace {

// The text shows at most this many ranks; the JSON report has all.
constexpr int kShownRanks = 32;
// Enough repetitions for a pipeline to reach its steady state in the last of them.
constexpr int kSimulatedRepetitions = 4;

double RelativeDifference(double first, double second) { return second == 0 ? 0 : (first - second) / second; }

std::string RankTable(const TraceReport& report) {
  std::string text = absl::StrFormat("  %4s %12s %12s %12s\n", "rank", "busy", "exposed comm", "idle");
  for (const TraceRank& rank : report.per_rank()) {
    if (rank.rank() >= kShownRanks) break;
    absl::StrAppendFormat(&text, "  %4d %12s %12s %12s\n", rank.rank(), SecondsText(rank.busy_seconds()),
                          SecondsText(rank.exposed_communication_seconds()), SecondsText(rank.idle_seconds()));
  }
  return text;
}

std::string OneTrace(const TraceReport& report) {
  return absl::StrCat(report.origin(), " trace of ", report.program(), ": ", report.repetitions(),
                      report.repetitions() == 1 ? " step, " : " steps, ", SecondsText(report.iteration_seconds()),
                      " per step, ", SecondsText(report.makespan_seconds()), " in all\n\nper rank and step\n",
                      RankTable(report));
}

// A row of a comparison: both sides, and how far the first one is off.
std::string Sides(double first, double second) {
  return absl::StrFormat("%12s %12s %12s %9s", SecondsText(first), SecondsText(second), SecondsText(first - second),
                         second == 0 ? "" : SignedPercentText(RelativeDifference(first, second)));
}

std::string ShareText(double share) { return absl::StrFormat("%5.1f %%", 100 * share); }

// Shows where the difference comes from: by source, by kernel, by step. On both sides, the sources add up to the time
// per step.
std::string Sources(const ComparisonReport& report, const std::string& heads, int top) {
  std::string text = absl::StrFormat(
      "\nby source, mean over ranks, per step; includes host and waiting, so the rows add up to the step\n  %-27s %s "
      "%7s\n",
      "source", heads, "share");
  double first = 0, second = 0;
  for (const SourceComparison& row : report.sources()) {
    absl::StrAppendFormat(&text, "  %-27s %s %s\n", row.source(), Sides(row.first_seconds(), row.second_seconds()),
                          ShareText(row.share()));
    first += row.first_seconds();
    second += row.second_seconds();
  }
  absl::StrAppendFormat(&text, "  %-27s %s\n", "total", Sides(first, second));
  if (report.kernels_size() > 0) {
    absl::StrAppendFormat(&text, "\ncompute by kernel, mean over ranks, per step\n  %-27s %6s %s %7s\n", "kernel",
                          "steps", heads, "share");
    for (const KernelComparison& row : report.kernels()) {
      absl::StrAppendFormat(&text, "  %-27s %6d %s %s\n", row.kernel(), row.steps(),
                            Sides(row.first_seconds(), row.second_seconds()), ShareText(row.share()));
    }
  }
  if (report.steps_size() == 0 || top == 0) return text;
  absl::StrAppendFormat(&text, "\nsteps that differ most, summed over all ranks, per step\n  %-34s %6s %s %7s\n",
                        "segment, step", "times", heads, "share");
  for (int i = 0; i < std::min(report.steps_size(), top); ++i) {
    const StepComparison& row = report.steps(i);
    absl::StrAppendFormat(&text, "  %-34s %6d %s %s\n", absl::StrCat(row.segment(), ", ", row.step()), row.count(),
                          Sides(row.first_seconds(), row.second_seconds()), ShareText(row.share()));
  }
  return text;
}

// Text with the planned and allocated bytes; empty unless both traces contain their buffer bytes.
std::string Memory(const ComparisonReport& report) {
  const int64_t first = report.first().buffer_bytes(), second = report.second().buffer_bytes();
  if (first == 0 || second == 0) return "";
  const auto side = [](const TraceReport& trace) {
    return absl::StrCat(trace.origin() == "measured" ? "allocated " : "planned ", trace.buffer_bytes(), " bytes");
  };
  return absl::StrCat("\ndevice memory of the rank with most: ", side(report.first()), ", ", side(report.second()),
                      first == second ? ": equal\n" : absl::StrCat(": ", first - second, " bytes apart\n"));
}

std::string TwoTraces(const ComparisonReport& report, int top) {
  // Two traces of the same kind are named by their order.
  const bool same = report.first().origin() == report.second().origin();
  const std::string first = same ? "first" : report.first().origin();
  const std::string second = same ? "second" : report.second().origin();
  const std::string heads = absl::StrFormat("%12s %12s %12s %9s", first, second, "difference", "");
  std::string text = absl::StrFormat("%s: time per step %s %s, %s %s (median of %d steps): %s off\n",
                                     report.first().program(), first, SecondsText(report.first().iteration_seconds()),
                                     second, SecondsText(report.second().iteration_seconds()),
                                     report.second().repetitions(), SignedPercentText(report.iteration_error()));
  if (report.kinds_size() > 0) {
    absl::StrAppendFormat(
        &text, "\nby kind of action, summed over all ranks, per step; without host and waiting\n  %-18s %8s %s\n",
        "kind", "actions", heads);
    for (const KindComparison& kind : report.kinds()) {
      absl::StrAppendFormat(&text, "  %-18s %8d %s\n", kind.kind(), kind.actions(),
                            Sides(kind.first_seconds(), kind.second_seconds()));
    }
  }
  absl::StrAppend(&text, Sources(report, heads, top), Memory(report));
  absl::StrAppendFormat(&text, "\nbusy, by rank, per step\n  %-27s %s\n", "rank", heads);
  for (int i = 0; i < std::min({report.first().per_rank_size(), report.second().per_rank_size(), kShownRanks}); ++i) {
    absl::StrAppendFormat(&text, "  %-27d %s\n", report.first().per_rank(i).rank(),
                          Sides(report.first().per_rank(i).busy_seconds(), report.second().per_rank(i).busy_seconds()));
  }
  std::vector<const ActionComparison*> rows;
  for (const ActionComparison& action : report.actions()) rows.push_back(&action);
  const auto size = [](const ActionComparison* row) { return std::abs(row->first_seconds() - row->second_seconds()); };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const ActionComparison* a, const ActionComparison* b) { return size(a) > size(b); });
  rows.resize(std::min<size_t>(rows.size(), top));
  if (rows.empty()) return text;
  absl::StrAppendFormat(&text, "\nactions that differ most\n  %4s %-22s %s\n", "rank", "action", heads);
  for (const ActionComparison* row : rows) {
    absl::StrAppendFormat(&text, "  %4d %-22s %s\n", row->rank(), row->name(),
                          Sides(row->first_seconds(), row->second_seconds()));
  }
  return text;
}

// Compares a measured trace with the simulator's prediction for the same program.
absl::StatusOr<ComparisonReport> CompareWithPrediction(const Trace& measured, const Program& program,
                                                       const Cluster& cluster) {
  sim::SimulateOptions options;
  // The same default as weft simulate.
  options.cost = sim::BestCostModel(cluster);
  options.trace = true;
  options.trace_repetitions = kSimulatedRepetitions;
  WEFT_ASSIGN_OR_RETURN(const sim::Simulation simulation, sim::Simulate(program, cluster, options));
  WEFT_ASSIGN_OR_RETURN(ComparisonReport report, sim::CompareTraces(*simulation.trace, measured, &program));
  // Use the simulation's own steady-state period instead of an estimate from the few simulated repetitions.
  report.mutable_first()->set_iteration_seconds(simulation.report.iteration_seconds());
  // The part of the period that the sources do not cover. The sources describe one repetition, so their sum differs
  // from the steady-state period.
  double apart = simulation.report.iteration_seconds();
  for (const SourceComparison& row : report.sources()) apart -= row.first_seconds();
  // Times are whole picoseconds (rule P12), so a smaller remainder is a rounding error of sums of doubles.
  if (std::abs(apart) < 0.5e-12) apart = 0;
  SourceComparison* steady = report.add_sources();
  steady->set_source("steady state");
  steady->set_first_seconds(apart);
  double all = 0;
  for (const SourceComparison& row : report.sources()) all += std::abs(row.first_seconds() - row.second_seconds());
  for (SourceComparison& row : *report.mutable_sources()) {
    row.set_share(all > 0 ? std::abs(row.first_seconds() - row.second_seconds()) / all : 0);
  }
  report.set_iteration_error(
      RelativeDifference(report.first().iteration_seconds(), report.second().iteration_seconds()));
  return report;
}

}  // namespace

absl::Status ReportCommand(absl::Span<const std::string> args) {
  std::string program_path, cluster_name, format = "text";
  int64_t top = 10;
  Flags flags(
      "weft report", "TRACE [TRACE] [flags]",
      "Summarizes a trace that `weft run --trace` or `weft simulate --trace` wrote. With a second trace, or with\n"
      "the prediction of --program, shows how the two differ, action by action.");
  flags.String("program", "FILE",
               "the program of the trace, for the names of its actions; with one TRACE, weft also compares it with the "
               "prediction",
               &program_path);
  flags.String("cluster", "NAME|FILE",
               "the machine to predict for; default: the cluster that the program was compiled for", &cluster_name);
  flags.Choice("format", {"text", "json"}, "output format", &format);
  flags.Int("top", "N", "rows in each list of the steps and actions that differ most", &top, 0, 1'000'000);
  flags.Example("weft report measured.trace --program=tiny.weft --cluster=this-machine.textproto");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 2));
  if (flags.help_wanted()) return Print(flags.Help());
  const bool two = flags.positional().size() == 2;
  if (!cluster_name.empty() && (two || program_path.empty())) {
    return UsageError(
        "--cluster needs --program and one TRACE, because it predicts that program; see weft report --help");
  }

  Progress progress;
  progress.Step("reading");
  std::vector<Trace> traces;
  for (const std::string& path : flags.positional()) {
    WEFT_ASSIGN_OR_RETURN(Trace trace, ReadTrace(path));
    traces.push_back(std::move(trace));
  }
  std::vector<std::string> paths(flags.positional().begin(), flags.positional().end());
  // Put the prediction first, whatever the order of the files: the reported error is the error of the prediction.
  if (two && traces[0].origin() == "measured" && traces[1].origin() == "simulated") {
    std::swap(traces[0], traces[1]);
    std::swap(paths[0], paths[1]);
  }
  Program program;
  std::string note;
  if (!program_path.empty()) {
    WEFT_ASSIGN_OR_RETURN(program, LoadProgram(program_path));
    for (size_t i = 0; i < traces.size(); ++i) {
      WEFT_RETURN_IF_ERROR(Annotate(sim::ValidateTogether(traces[i], program), paths[i]));
    }
  }

  std::string text;
  if (!two && program_path.empty()) {
    const TraceReport report = sim::SummarizeTrace(traces[0]);
    text = PrintableLines(OneTrace(report));
    if (format == "json") {
      WEFT_ASSIGN_OR_RETURN(text, MessageToJson(report));
    }
  } else {
    ComparisonReport report;
    if (two) {
      WEFT_ASSIGN_OR_RETURN(report,
                            sim::CompareTraces(traces[0], traces[1], program_path.empty() ? nullptr : &program));
    } else {
      progress.Step("simulating");
      WEFT_ASSIGN_OR_RETURN(const Cluster cluster, ClusterFor(program, cluster_name));
      note = NoteOnCluster(program, cluster, cluster_name, "predicted");
      WEFT_ASSIGN_OR_RETURN(report, CompareWithPrediction(traces[0], program, cluster));
    }
    text = PrintableLines(TwoTraces(report, static_cast<int>(top)));
    if (program.steps_per_repetition() > 0) {
      absl::StrAppend(&text, "\nThe program never drains the pipeline. Each step above is a repetition of ",
                      program.steps_per_repetition(), " optimizer steps.\n");
    }
    if (format == "json") {
      WEFT_ASSIGN_OR_RETURN(text, MessageToJson(report));
    }
  }
  progress.Done();
  if (!note.empty()) PrintNote(note);
  return Print(text);
}

}  // namespace weft
