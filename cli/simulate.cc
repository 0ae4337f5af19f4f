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
#include "simulator/report/report_text.h"
#include "simulator/what_if.h"

namespace weft {
namespace {

std::string TrainingTime(double tokens, const SimulationReport& report) {
  const double seconds = tokens / report.tokens_per_second();
  return absl::StrFormat("%s tokens take %s days (%s device hours)\n", CountText(tokens),
                         absl::StrFormat("%.4g", seconds / 86400),
                         CountText(seconds / 3600 * static_cast<double>(report.ranks())));
}

absl::Status PrintReport(const SimulateRequest& request, const SimulationReport& report) {
  if (request.format == "json") {
    WEFT_ASSIGN_OR_RETURN(const std::string text, MessageToJson(report));
    return Print(text);
  }
  return Print(absl::StrCat(PrintableLines(sim::ReportToText(report, request.verbose)),
                            request.tokens ? TrainingTime(*request.tokens, report) : ""));
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
  if (simulation.trace) {
    progress.Step(absl::StrCat("writing ", request.trace));
    WEFT_RETURN_IF_ERROR(WriteTrace(*simulation.trace, simulation.as_run.value_or(program), request.trace));
  }
  if (!request.what_if.empty()) progress.Step("simulating changes of the machine");
  WEFT_RETURN_IF_ERROR(sim::AddWhatIfs(program, cluster, options, request.what_if, &simulation.report));
  progress.Done();
  for (const std::string& note : NotesOn(loaded, options)) PrintNote(note);
  const SimulationReport& report = simulation.report;
  if (absl::Status printed = PrintReport(request, report); !printed.ok()) {
    // The trace is written even if the report cannot be printed.
    if (request.trace.empty()) return printed;
    return absl::Status(printed.code(), absl::StrCat(printed.message(), "; ", request.trace, " is written"));
  }
  return request.require_fit ? CheckFit(simulation, program, cluster) : absl::OkStatus();
}

}  // namespace weft
