#include "cli/inputs/costed_program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "catalog/load.h"
#include "cli/common/flags.h"
#include "compiler/inputs/stage_cut.h"
#include "compiler/inputs/usual_microbatch.h"
#include "planner/compile.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_runtime.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/measured_rate.h"
#include "simulator/network/network_notes.h"
#include "simulator/noise.h"
#include "simulator/program/joined_steps.h"
#include "simulator/runtime/kernel_form.h"
#include "simulator/simulate_runs.h"

namespace weft {
namespace {

// Returns a note that lists the plan fields that the runtime would set. They have no effect, because a compiled program
// keeps its own plan.
std::string NoteOnPlan(const Runtime& runtime) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  runtime.plan().GetReflection()->ListFields(runtime.plan(), &fields);
  const std::string names = absl::StrJoin(
      fields, ", ", [](std::string* out, const auto* field) { absl::StrAppend(out, "plan.", field->name()); });
  return absl::StrCat("runtime ", Quoted(runtime.name()), " has its own defaults for ", names,
                      "; this program is compiled and keeps the values of its plan; to use the defaults of the "
                      "runtime, give --model and --cluster instead of the program");
}

// Returns "4, 2"; "5, 6 (14 stages), 5"; or "3" if all stages are alike.
std::string LayersText(const std::vector<int32_t>& layers) {
  std::string text;
  size_t end = 0;
  for (size_t begin = 0; begin < layers.size(); begin = end) {
    while (end < layers.size() && layers[end] == layers[begin]) ++end;
    absl::StrAppend(&text, begin == 0 ? "" : ", ", layers[begin]);
    const size_t stages = end - begin;
    if (stages == layers.size()) break;
    if (stages > 2) absl::StrAppend(&text, " (", stages, " stages)");
    if (stages == 2) absl::StrAppend(&text, ", ", layers[begin]);
  }
  return text;
}

// If `status` refuses the plan's precision, adds which of its fields the runtime filled in.
absl::Status WithPrecisionOf(const Runtime& runtime, const absl::Status& status) {
  if (!runtime.plan().has_precision() || !RefusesPrecision(status)) return status;
  const Precision& precision = runtime.plan().precision();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  precision.GetReflection()->ListFields(precision, &fields);
  const std::string decided = absl::StrJoin(fields, ", ", [&](std::string* out, const auto* field) {
    absl::StrAppend(out, field->name(), " = ", precision.GetReflection()->GetEnum(precision, field)->name());
  });
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; runtime ", Quoted(runtime.name()), " sets ", decided,
                   " if the plan does not; to choose another, use --set precision.", fields.front()->name(), "=..."));
}

// Fills the fields that recipe and plan leave unset with the framework's own choices. These depend on the model's sizes
// and the mesh.
void ChooseAs(const Runtime& runtime, Inputs* inputs, std::vector<std::string>* notes) {
  Recipe& recipe = inputs->recipe;
  const std::optional<int64_t> usual =
      UsualMicrobatchOf(runtime, recipe.global_batch_sequences(), AxisSize(inputs->plan.mesh(), "data"),
                        AxisSize(inputs->plan.mesh(), "pipe"));
  if (recipe.microbatch_sequences() == 0 && usual) {
    recipe.set_microbatch_sequences(*usual);
    notes->push_back(absl::StrCat("recipe.microbatch_sequences is not set; weft takes ", recipe.microbatch_sequences(),
                                  ", the usual value for runtime ", Quoted(runtime.name())));
  }
  const std::vector<int32_t> cut = CutStagesAs(runtime, inputs->model, recipe, &inputs->plan);
  if (cut.size() > 1) {
    notes->push_back(absl::StrCat("plan.partition is not set; weft cuts the model into stages of ", LayersText(cut),
                                  " layers, as runtime ", Quoted(runtime.name()), " does"));
  }
}

}  // namespace

absl::StatusOr<CostedProgram> LoadOrCompile(const CostRequest& request, Progress* progress) {
  CostedProgram loaded;
  WEFT_ASSIGN_OR_RETURN(loaded.runtime, LoadRuntime(request.runtime));
  loaded.joins_from = loaded.runtime ? loaded.runtime->joins_from_compute_capability() : 0;
  // Apart from `joins_from`, weft's own runtime changes nothing, so it counts as no runtime.
  if (loaded.runtime->name() == "weft") loaded.runtime.reset();
  if (!request.program.empty()) {
    progress->Step(absl::StrCat("reading and proving ", request.program));
    WEFT_ASSIGN_OR_RETURN(loaded.program, LoadProgram(request.program));
    WEFT_ASSIGN_OR_RETURN(loaded.cluster, ClusterFor(loaded.program, request.input.cluster));
    if (request.goodput) WEFT_RETURN_IF_ERROR(sim::CheckReliability(loaded.cluster));
    std::string note = NoteOnCluster(loaded.program, loaded.cluster, request.input.cluster, "simulated");
    if (!note.empty()) loaded.notes.push_back(std::move(note));
    if (loaded.runtime && loaded.runtime->has_plan()) loaded.notes.push_back(NoteOnPlan(*loaded.runtime));
    return loaded;
  }
  WEFT_ASSIGN_OR_RETURN(Inputs inputs, LoadInputs(request.input, progress));
  // Check these before compiling, which takes longest.
  if (request.options.runs > 0) WEFT_RETURN_IF_ERROR(sim::CheckNoise(inputs.cluster));
  if (request.goodput) WEFT_RETURN_IF_ERROR(sim::CheckReliability(inputs.cluster));
  loaded.notes = std::move(inputs.notes);
  if (std::string note = NoteOnMesh(inputs); !note.empty()) loaded.notes.push_back(std::move(note));
  progress->Step(absl::StrCat("compiling ", inputs.model.name()));
  if (loaded.runtime) {
    const Plan own = inputs.plan;
    inputs.plan = PlanUnder(*loaded.runtime, own);
    // Keep a recompute mode that the user sets, even if it is the default.
    if (IsSet(request.input, "plan.recompute.mode")) *inputs.plan.mutable_recompute() = own.recompute();
    WEFT_RETURN_IF_ERROR(ApplySettingsOver(request.input, &inputs.plan));
    ChooseAs(*loaded.runtime, &inputs, &loaded.notes);
  }
  planner::CompileOptions compile;
  // The cost model `unit` is for a schedule alone. The compiler then uses the best model of the cluster.
  const std::string& cost = request.options.cost;
  compile.cost = cost.empty() || !sim::KnowsDevice(cost) ? sim::BestCostModel(inputs.cluster) : cost;
  // Continue if the program does not fit: the report says so.
  compile.allow_oom = true;
  compile.notes = &loaded.notes;
  std::string unfit;
  if (loaded.runtime) {
    compile.unfit = &unfit;
    compile.runtime = &*loaded.runtime;
  }
  compile.on_phase = [&](absl::string_view phase) {
    progress->Step(absl::StrCat("compiling ", inputs.model.name(), ": ", phase));
  };
  absl::StatusOr<Program> compiled =
      planner::CompilePlan(inputs.model, inputs.recipe, inputs.plan, inputs.cluster, compile);
  absl::Status status = compiled.status();
  if (loaded.runtime) status = WithPrecisionOf(*loaded.runtime, status);
  WEFT_RETURN_IF_ERROR(WithFile(status, request.input, inputs));
  loaded.program = *std::move(compiled);
  // A program that does not fit weft's own executor may still fit under this runtime.
  if (!unfit.empty()) {
    loaded.notes.push_back(absl::StrCat("the fit check assumes weft's own executor; the report is for runtime ",
                                        Quoted(loaded.runtime->name()), ": ", unfit));
  }
  loaded.cluster = std::move(inputs.cluster);
  return loaded;
}

absl::Status FinishOptions(const CostedProgram& loaded, sim::SimulateOptions* options) {
  if (options->exceeded && !loaded.program.post_validation()) {
    return UsageError("--exceeded needs a program that was compiled with plan.post_validation = true");
  }
  if (options->cost.empty()) options->cost = sim::BestCostModel(loaded.cluster);
  if (loaded.runtime) options->runtime = &*loaded.runtime;
  return absl::OkStatus();
}

absl::StatusOr<sim::Simulation> SimulateCosted(const CostedProgram& loaded, const sim::SimulateOptions& options,
                                               Progress* progress) {
  sim::SimulateOptions once = options;
  once.runs = 0;
  WEFT_ASSIGN_OR_RETURN(sim::Simulation simulation, sim::Simulate(loaded.program, loaded.cluster, once));
  if (options.runs == 0) return simulation;
  const auto on_run = [&](int64_t run) {
    progress->StepOften(absl::StrCat("simulating run ", run, " of ", options.runs, " on ", loaded.cluster.name()));
  };
  WEFT_ASSIGN_OR_RETURN(*simulation.report.mutable_noise(),
                        sim::SimulateRuns(loaded.program, loaded.cluster, options, on_run));
  return simulation;
}

std::vector<std::string> NotesOn(const CostedProgram& loaded, const sim::SimulateOptions& options) {
  std::vector<std::string> notes = loaded.notes;
  for (std::string& note : sim::NotesOnNetwork(loaded.program, loaded.cluster, options.network)) {
    notes.push_back(std::move(note));
  }
  // Notes on the kernels that the prediction assumes. Other runtimes have their own kernels (docs/runtimes.md).
  if (!sim::KnowsDevice(options.cost)) return notes;
  std::string launches = sim::NoteOnLaunches(loaded.program, loaded.cluster.device(), loaded.joins_from);
  if (!launches.empty()) notes.push_back(std::move(launches));
  if (loaded.runtime) {
    for (std::string& note : sim::NotesOnForms(*loaded.runtime, loaded.cluster.device(), loaded.program)) {
      notes.push_back(std::move(note));
    }
    return notes;
  }
  for (std::string& note : sim::NotesOnRates(loaded.program, loaded.cluster.device())) notes.push_back(std::move(note));
  return notes;
}

}  // namespace weft
