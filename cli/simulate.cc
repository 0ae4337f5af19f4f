// weft simulate: what a program costs on a cluster.
#include "simulator/simulate.h"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "catalog/load_runtime.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/simulate_flags.h"
#include "cli/terminal.h"
#include "cli/trace_file.h"
#include "compiler/compile.h"
#include "proto/json.h"
#include "proto/runtime.pb.h"
#include "proto/status.h"
#include "proto/suggest.h"
#include "proto/units_text.h"
#include "proto/validate_runtime.h"
#include "proto/verify/verify.h"
#include "schedules/collective/plan.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/measured_rate.h"
#include "simulator/noise.h"
#include "simulator/report_text.h"
#include "simulator/what_if.h"

namespace weft {
namespace {

std::string TrainingTime(double tokens, const SimulationReport& report) {
  const double seconds = tokens / report.tokens_per_second();
  return absl::StrFormat("%s tokens take %s days (%s device hours)\n", CountText(tokens),
                         absl::StrFormat("%.4g", seconds / 86400),
                         CountText(seconds / 3600 * static_cast<double>(report.ranks())));
}

struct Loaded {
  Program program;
  Cluster cluster;
  // None of weft's own executor.
  std::optional<Runtime> runtime;
  std::vector<std::string> notes;
};

// A program is as it was compiled.
std::string NoteOnPlan(const Runtime& runtime) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  runtime.plan().GetReflection()->ListFields(runtime.plan(), &fields);
  const std::string names = absl::StrJoin(
      fields, ", ", [](std::string* out, const auto* field) { absl::StrAppend(out, "plan.", field->name()); });
  return absl::StrCat("runtime ", Quoted(runtime.name()), " decides ", names,
                      " where a plan is silent; this program is ",
                      "compiled already and keeps its own: with --model instead of the program the runtime decides");
}

// Reads the program, or compiles it.
absl::StatusOr<Loaded> LoadOrCompile(const SimulateRequest& request, Progress* progress) {
  Loaded loaded;
  WEFT_ASSIGN_OR_RETURN(loaded.runtime, LoadRuntime(request.runtime));
  // That of weft itself changes nothing.
  if (loaded.runtime->name() == "weft") loaded.runtime.reset();
  if (!request.program.empty()) {
    progress->Step(absl::StrCat("reading and proving ", request.program));
    WEFT_ASSIGN_OR_RETURN(loaded.program, LoadProgram(request.program));
    WEFT_ASSIGN_OR_RETURN(loaded.cluster, ClusterFor(loaded.program, request.input.cluster));
    std::string note = NoteOnCluster(loaded.program, loaded.cluster, "simulated");
    if (!note.empty()) loaded.notes.push_back(std::move(note));
    if (loaded.runtime && loaded.runtime->has_plan()) loaded.notes.push_back(NoteOnPlan(*loaded.runtime));
    return loaded;
  }
  WEFT_ASSIGN_OR_RETURN(Inputs inputs, LoadInputs(request.input, progress));
  // To compile takes longest.
  if (request.options.runs > 0) WEFT_RETURN_IF_ERROR(CheckNoise(inputs.cluster));
  loaded.notes = std::move(inputs.notes);
  progress->Step(absl::StrCat("compiling ", inputs.model.name()));
  if (loaded.runtime) {
    inputs.plan = PlanUnder(*loaded.runtime, inputs.plan);
    WEFT_RETURN_IF_ERROR(ApplySettingsOver(request.input, &inputs.plan));
  }
  CompileOptions compile;
  // `unit` is of a schedule alone; the compiler goes by the machine then too.
  const std::string& cost = request.options.cost;
  compile.cost = cost.empty() || cost == "unit" ? BestCostModel(inputs.cluster) : cost;
  // What does not fit is part of the report.
  compile.allow_oom = true;
  compile.notes = &loaded.notes;
  WEFT_ASSIGN_OR_RETURN(loaded.program, Compile(inputs.model, inputs.recipe, inputs.plan, inputs.cluster, compile));
  WEFT_RETURN_IF_ERROR(VerifyProgram(loaded.program, {.allow_unfit = true, .algorithms = KnownCollectives()}));
  loaded.cluster = std::move(inputs.cluster);
  return loaded;
}

absl::Status PrintReport(const SimulateRequest& request, const SimulationReport& report) {
  if (request.format == "json") {
    WEFT_ASSIGN_OR_RETURN(const std::string text, MessageToJson(report));
    return Print(text);
  }
  return Print(
      absl::StrCat(ReportToText(report, request.verbose), request.tokens ? TrainingTime(*request.tokens, report) : ""));
}

}  // namespace

absl::Status SimulateCommand(absl::Span<const std::string> args) {
  SimulateRequest request;
  SimulateFlags flags(&request);
  WEFT_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help_wanted()) return Print(flags.Help());

  Progress progress;
  WEFT_ASSIGN_OR_RETURN(Loaded read, LoadOrCompile(request, &progress));
  // Never freed: to take a large program apart would take a twentieth of the time of a folded run, for nothing.
  static const Loaded* kept = nullptr;
  kept = new Loaded(std::move(read));
  const Loaded& loaded = *kept;
  const Program& program = loaded.program;
  const Cluster& cluster = loaded.cluster;
  SimulateOptions& options = request.options;
  if (options.exceeded && !program.post_validation()) {
    return UsageError(
        "--exceeded is for programs with post_validation; this one waits for its norms (plan field "
        "post_validation)");
  }
  if (options.cost.empty()) options.cost = BestCostModel(cluster);
  if (loaded.runtime) options.runtime = &*loaded.runtime;
  progress.Step(absl::StrCat("simulating on ", cluster.name()));
  WEFT_ASSIGN_OR_RETURN(Simulation simulation, Simulate(program, cluster, options));
  WEFT_RETURN_IF_ERROR(CheckRatios(program, simulation.report));
  if (simulation.trace) {
    progress.Step(absl::StrCat("writing ", request.trace));
    WEFT_RETURN_IF_ERROR(WriteTrace(*simulation.trace, simulation.as_run.value_or(program), request.trace));
  }
  if (!request.what_if.empty()) progress.Step("simulating changes of the machine");
  WEFT_RETURN_IF_ERROR(AddWhatIfs(program, cluster, options, request.what_if, &simulation.report));
  progress.Done();
  for (const std::string& note : loaded.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  // What a prediction of weft's own kernels rests on; others have kernels of their own (docs/runtimes.md).
  if (options.cost != "unit" && !loaded.runtime) {
    for (const std::string& note : NotesOnRates(program, cluster.device())) {
      std::fprintf(stderr, "note: %s\n", note.c_str());
    }
  }
  const SimulationReport& report = simulation.report;
  WEFT_RETURN_IF_ERROR(PrintReport(request, report));
  if (request.require_fit && !report.fits()) {
    return absl::ResourceExhaustedError(absl::StrCat("the program needs ", BytesText(report.device_bytes()),
                                                     " per device; ", cluster.name(), " has ",
                                                     BytesText(report.capacity_bytes())));
  }
  return absl::OkStatus();
}

}  // namespace weft
