// weft simulate: what a program costs on a cluster.
#include "simulator/simulate.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "catalog/load_runtime.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/inputs.h"
#include "cli/terminal.h"
#include "cli/trace_file.h"
#include "compiler/compile.h"
#include "proto/io.h"
#include "proto/json.h"
#include "proto/status.h"
#include "proto/suggest.h"
#include "proto/units_text.h"
#include "proto/validate_runtime.h"
#include "proto/verify/verify.h"
#include "schedules/collective/plan.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/network_model.h"
#include "simulator/report_text.h"

namespace weft {
namespace {

// 10 seconds.
constexpr int64_t kLargestUnitNs = 10'000'000'000;

// "15T", "300e9", "1.5B": a number with an optional k, M, B (or G), T.
std::optional<double> ParseCount(absl::string_view text) {
  double scale = 1;
  if (!text.empty()) {
    const size_t unit = std::string("kMBGT").find(text.back());
    constexpr double kScales[] = {1e3, 1e6, 1e9, 1e9, 1e12};
    if (unit != std::string::npos) {
      scale = kScales[unit];
      text.remove_suffix(1);
    }
  }
  double value = 0;
  if (text.find_first_not_of("0123456789.e+") != absl::string_view::npos || !absl::SimpleAtod(text, &value)) {
    return std::nullopt;
  }
  value *= scale;
  if (!(value >= 1) || value > 1e18) return std::nullopt;
  return value;
}

std::string TrainingTime(double tokens, const SimulationReport& report) {
  const double seconds = tokens / report.tokens_per_second();
  return absl::StrFormat("%s tokens take %s days (%s device hours)\n", CountText(tokens),
                         absl::StrFormat("%.4g", seconds / 86400),
                         CountText(seconds / 3600 * static_cast<double>(report.ranks())));
}

template <typename Entry>
std::vector<std::string> NamesOf(absl::Span<const Entry> entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

}  // namespace

absl::Status SimulateCommand(absl::Span<const std::string> args) {
  InputFlags input;
  SimulateOptions options;
  std::string runtime = "weft", format = "text", trace;
  std::optional<double> tokens;
  bool require_fit = false;
  bool verbose = false;
  int64_t repetitions = 1;
  // Nanoseconds: thousandths of a microsecond.
  int64_t forward_ns = options.cost_options.unit_forward.ps / 1000;
  int64_t backward_ns = options.cost_options.unit_backward.ps / 1000;
  int64_t weight_ns = options.cost_options.unit_weight.ps / 1000;
  int64_t pair_ns = options.cost_options.unit_pair.ps / 1000;
  Flags flags("weft simulate", "PROGRAM | --model=M --cluster=C [--recipe=R] [--plan=P]   [flags]",
              "Predicts what a program costs: time per step, idle time and its causes, memory, tokens per second. The\n"
              "program is a file that `weft compile` wrote, or is compiled from the same flags on the way.");
  AddInputFlags(&flags, &input);
  flags.Choice("network", NamesOf(NetworkModels()), "how transfers are costed", &options.network);
  flags.Choice("cost", NamesOf(CostModels()), "how kernels are costed", &options.cost);
  flags.Thousandths("forward", "US", "with --cost=unit: microseconds of a forward", &forward_ns, 1, kLargestUnitNs);
  flags.Thousandths("backward", "US", "with --cost=unit: microseconds of a backward", &backward_ns, 1, kLargestUnitNs);
  flags.Thousandths("weight", "US",
                    "with --cost=unit: of a backward, the weight gradients'; half of it if only --backward is given",
                    &weight_ns, 0, kLargestUnitNs);
  flags.Thousandths("pair", "US", "with --cost=unit: a forward and a backward that overlap; 0 = the sum", &pair_ns, 0,
                    kLargestUnitNs);
  flags.String("runtime", "NAME|FILE", "the framework whose run is predicted", &runtime);
  flags.Custom("tokens", "COUNT", "also the time to train on so many tokens, e.g. 15T", "",
               [&tokens](const std::string& text) {
                 tokens = ParseCount(text);
                 if (!tokens) return absl::InvalidArgumentError("expected a number from 1 to 1e18, e.g. 300B or 15T");
                 return absl::OkStatus();
               });
  flags.Choice("format", {"text", "json"}, "output format", &format);
  flags.Bool("verbose", "also what each rank waited for, and for how long", &verbose);
  flags.String("trace", "FILE", "writes the simulated steps for ui.perfetto.dev and for weft report", &trace);
  flags.Int("trace-repetitions", "K", "optimizer steps in the trace", &repetitions, 1, 1000);
  flags.Int("runs", "N", "also the iteration's time in N runs that differ as the cluster's `noise` says: percentiles",
            &options.runs, 0, 1'000'000);
  flags.Int("seed", "S", "with --runs: another seed, other runs", &options.seed, 0, INT64_MAX);
  flags.Bool("exceeded", "of a program with post_validation: every gradient norm is too large, instead of none",
             &options.exceeded);
  flags.Bool("require-fit", "exit with 1 if the program does not fit the device", &require_fit);
  flags.Example("weft simulate gpt2.weft --cluster=dgx-h100 --trace=t.json");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 0, 1));
  if (flags.help_wanted()) return Print(flags.Help());
  const bool from_file = !flags.positional().empty();
  for (const char* flag : {"model", "recipe", "plan", "set"}) {
    if (from_file && flags.Given(flag)) {
      return UsageError(
          absl::StrCat("--", flag, " is for compiling; ", Quoted(flags.positional()[0]), " is compiled already"));
    }
  }

  if (!from_file && input.model.empty()) {
    return UsageError("a PROGRAM, or --model and --cluster, are needed; see weft simulate --help");
  }
  for (const char* flag : {"forward", "backward", "weight", "pair"}) {
    if (options.cost != "unit" && flags.Given(flag)) {
      return UsageError(absl::StrCat("--", flag, " is for --cost=unit, the cost is ", options.cost));
    }
  }
  if (flags.Given("backward") && !flags.Given("weight")) weight_ns = backward_ns / 2;
  if (weight_ns > backward_ns) {
    return UsageError(
        absl::StrCat("--weight=", weight_ns / 1000.0, ": allowed: at most --backward=", backward_ns / 1000.0));
  }
  options.cost_options = {.unit_forward = {forward_ns * 1000},
                          .unit_backward = {backward_ns * 1000},
                          .unit_weight = {weight_ns * 1000},
                          .unit_pair = {pair_ns * 1000}};
  if (flags.Given("seed") && options.runs == 0) return UsageError("--seed is for --runs=N");
  if (verbose && format == "json") return UsageError("--verbose has --format=text only; JSON has everything");
  if (tokens && format == "json") return UsageError("--tokens has --format=text only; see weft simulate --help");

  // That of weft itself changes nothing.
  WEFT_ASSIGN_OR_RETURN(const Runtime framework, LoadRuntime(runtime));
  if (framework.name() != "weft") options.runtime = &framework;

  Progress progress;
  Program program;
  Cluster cluster;
  std::vector<std::string> notes;
  if (from_file) {
    progress.Step(absl::StrCat("reading and proving ", flags.positional()[0]));
    WEFT_ASSIGN_OR_RETURN(program, LoadProgram(flags.positional()[0]));
    WEFT_ASSIGN_OR_RETURN(cluster, ClusterFor(program, input.cluster));
    std::string note = NoteOnCluster(program, cluster, "simulated");
    if (!note.empty()) notes.push_back(std::move(note));
  } else {
    WEFT_ASSIGN_OR_RETURN(Inputs inputs, LoadInputs(input, &progress));
    progress.Step(absl::StrCat("compiling ", inputs.model.name()));
    CompileOptions compile;
    // What does not fit is part of the report.
    compile.allow_oom = true;
    compile.notes = &notes;
    inputs.plan = PlanUnder(framework, inputs.plan);
    WEFT_ASSIGN_OR_RETURN(program, Compile(inputs.model, inputs.recipe, inputs.plan, inputs.cluster, compile));
    WEFT_RETURN_IF_ERROR(VerifyProgram(program, {.allow_unfit = true, .algorithms = KnownCollectives()}));
    cluster = std::move(inputs.cluster);
  }

  if (options.exceeded && !program.post_validation()) {
    return UsageError(
        "--exceeded is for programs with post_validation; this one waits for its norms (plan field "
        "post_validation)");
  }
  progress.Step(absl::StrCat("simulating on ", cluster.name()));
  options.trace = !trace.empty();
  options.trace_repetitions = static_cast<int>(repetitions);
  WEFT_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, cluster, options));
  if (simulation.trace) {
    progress.Step(absl::StrCat("writing ", trace));
    WEFT_RETURN_IF_ERROR(WriteTrace(*simulation.trace, simulation.as_run ? *simulation.as_run : program, trace));
  }
  progress.Done();
  for (const std::string& note : notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  const SimulationReport& report = simulation.report;
  std::string text;
  if (format == "json") {
    WEFT_ASSIGN_OR_RETURN(text, MessageToJson(report));
  } else {
    text = absl::StrCat(ReportToText(report, verbose), tokens ? TrainingTime(*tokens, report) : "");
  }
  WEFT_RETURN_IF_ERROR(Print(text));
  if (require_fit && !report.fits()) {
    return absl::ResourceExhaustedError(absl::StrCat("the program needs ", BytesText(report.device_bytes()),
                                                     " per device; ", cluster.name(), " has ",
                                                     BytesText(report.capacity_bytes())));
  }
  return absl::OkStatus();
}

}  // namespace weft
