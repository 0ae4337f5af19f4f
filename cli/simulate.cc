// weft simulate: shows what a program costs on a cluster.
#include "simulator/simulate.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/common/terminal.h"
#include "cli/inputs/costed_program.h"
#include "cli/inputs/simulate_flags.h"
#include "cli/results/fit.h"
#include "cli/results/trace_file.h"
#include "proto/io/json.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/units_text.h"
#include "simulator/goodput/goodput.h"
#include "simulator/report/report_text.h"
#include "simulator/what_if.h"

namespace weft {
namespace {

// Days, device hours and, if the cluster states a price, dollars to train `tokens` tokens.
std::string TrainingTime(double tokens, const Cluster& cluster, const SimulationReport& report) {
  const auto line = [&](double tokens_per_second, absl::string_view what) {
    const double hours = tokens / tokens_per_second / 3600 * static_cast<double>(report.ranks());
    const double dollars = hours * cluster.dollars_per_device_hour();
    return absl::StrFormat(
        "%s tokens take %.4g days%s (%s device hours%s)\n", CountText(tokens), tokens / tokens_per_second / 86400, what,
        CountText(hours),
        cluster.has_dollars_per_device_hour() ? absl::StrCat(", ", CountText(dollars), " dollars") : "");
  };
  return absl::StrCat(line(report.tokens_per_second(), ""),
                      report.has_goodput() ? line(report.goodput().tokens_per_second(), " with interruptions") : "");
}

absl::Status PrintReport(const SimulateRequest& request, const Cluster& cluster, const SimulationReport& report) {
  if (request.format == "json") {
    WEFT_ASSIGN_OR_RETURN(const std::string text, MessageToJson(report));
    return Print(text);
  }
  return Print(absl::StrCat(PrintableLines(sim::ReportToText(report, request.verbose)),
                            request.tokens ? TrainingTime(*request.tokens, cluster, report) : ""));
}

}  // namespace

absl::Status SimulateCommand(absl::Span<const std::string> args) {
  SimulateRequest request;
  SimulateFlags flags(&request);
  WEFT_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help_wanted()) return Print(flags.Help());

  Progress progress;
  WEFT_ASSIGN_OR_RETURN(CostedProgram read, LoadOrCompile(request, &progress));
  // Never freed: freeing a large program would take a twentieth of the time of a folded run, for nothing.
  static const CostedProgram* kept = nullptr;
  kept = new CostedProgram(std::move(read));
  const CostedProgram& loaded = *kept;
  const Program& program = loaded.program;
  const Cluster& cluster = loaded.cluster;
  sim::SimulateOptions& options = request.options;
  WEFT_RETURN_IF_ERROR(FinishOptions(loaded, &options));
  progress.Step(absl::StrCat("simulating on ", cluster.name()));
  WEFT_ASSIGN_OR_RETURN(sim::Simulation simulation, SimulateCosted(loaded, options, &progress));
  WEFT_RETURN_IF_ERROR(sim::CheckRatios(program, simulation.report));
  if (request.goodput) {
    progress.Step("predicting the goodput");
    WEFT_ASSIGN_OR_RETURN(*simulation.report.mutable_goodput(),
                          sim::PredictGoodput(program, cluster, simulation.report, *request.goodput));
  }
  if (simulation.trace) {
    progress.Step(absl::StrCat("writing ", request.trace));
    WEFT_RETURN_IF_ERROR(WriteTrace(*simulation.trace, simulation.as_run.value_or(program), request.trace));
  }
  if (!request.what_if.empty()) progress.Step("simulating changes of the machine");
  WEFT_RETURN_IF_ERROR(sim::AddWhatIfs(program, cluster, options, request.what_if, &simulation.report));
  progress.Done();
  for (const std::string& note : NotesOn(loaded, options)) PrintNote(note);
  const SimulationReport& report = simulation.report;
  if (absl::Status printed = PrintReport(request, cluster, report); !printed.ok()) {
    // The trace is written even if the report cannot be printed.
    if (request.trace.empty()) return printed;
    return absl::Status(printed.code(), absl::StrCat(printed.message(), "; ", request.trace, " is written"));
  }
  return request.require_fit ? CheckFit(simulation, program, cluster) : absl::OkStatus();
}

}  // namespace weft
