// weft fit: says whether a plan fits in memory, what takes the memory, and what would change that.
#include "planner/fit/fit.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "catalog/load.h"
#include "cli/command.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/inputs/inputs.h"
#include "compiler/inputs/usual_microbatch.h"
#include "planner/fit/fewest_devices.h"
#include "proto/fit_report.pb.h"
#include "proto/io/json.h"
#include "proto/io/set_field.h"
#include "proto/util/mesh.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units_text.h"
#include "proto/validate/validate_runtime.h"
#include "simulator/cost/cost_model.h"

namespace weft {
namespace {

struct FitRequest {
  InputFlags input;
  std::string runtime = "weft";
  std::string format = "text";
  // 0 = as many as the mesh has; kAnyNumber = the fewest that fit.
  int64_t devices = 0;
  bool exact = false;
  bool require_fit = false;
};
constexpr int64_t kAnyNumber = -1;

absl::Status ReadDevices(const std::string& text, int64_t* devices) {
  if (text == "?") {
    *devices = kAnyNumber;
    return absl::OkStatus();
  }
  int64_t number = 0;
  WEFT_RETURN_IF_ERROR(ReadCount(text, "expected a number of devices, or ? for the fewest that fit", &number));
  if (number < 1 || number > 1 << 20) {
    return absl::InvalidArgumentError(
        absl::StrCat("allowed: 1 to ", 1 << 20, ", or ? for the fewest devices that fit"));
  }
  *devices = number;
  return absl::OkStatus();
}

void AddFlags(Flags* flags, FitRequest* request) {
  AddInputFlags(flags, &request->input);
  flags->String("runtime", "NAME|FILE",
                "the framework that runs the plan, or weft for its own executor; see weft list runtimes",
                &request->runtime);
  flags->Custom(
      "gpus", "N|?",
      "devices of the cluster that the plan uses; if the plan has no dp, replicas fill them. ? = find the fewest "
      "devices that fit, with any mesh, ZeRO stage and recompute that the plan leaves open",
      "those of the mesh", [request](const std::string& text) { return ReadDevices(text, &request->devices); });
  flags->Bool("exact", "compile the plan, however long that takes, instead of estimating it", &request->exact);
  flags->Bool("require-fit", "fail if the plan does not fit", &request->require_fit);
  flags->Choice("format", {"text", "json"}, "output format", &request->format);
  flags->Example("weft fit --model=llama-3.1-8b --cluster=dgx-h100 --set tp=2 --set dp=4 --set gbs=64 --set seq=8192");
  flags->Example("weft fit --model=llama-3.1-70b --cluster=dgx-h100 --gpus=? --set gbs=128 --set seq=8192");
}

// Fills in the fields that the plan leaves to the runtime.
absl::Status ApplyRuntime(const Runtime& runtime, const InputFlags& flags, Inputs* inputs) {
  const Plan own = inputs->plan;
  inputs->plan = PlanUnder(runtime, own);
  if (IsSet(flags, "plan.recompute.mode")) *inputs->plan.mutable_recompute() = own.recompute();
  return ApplySettingsOver(flags, &inputs->plan);
}

void ChooseMicrobatch(const Runtime& runtime, Inputs* inputs) {
  Recipe& recipe = inputs->recipe;
  const std::optional<int64_t> usual =
      UsualMicrobatchOf(runtime, recipe.global_batch_sequences(), AxisSize(inputs->plan.mesh(), "data"),
                        AxisSize(inputs->plan.mesh(), "pipe"));
  if (recipe.microbatch_sequences() != 0 || !usual) return;
  recipe.set_microbatch_sequences(*usual);
  inputs->notes.push_back(absl::StrCat("recipe.microbatch_sequences is not set; weft takes ", *usual,
                                       ", the usual value for runtime ", Quoted(runtime.name())));
}

// Lets replicas fill `devices`, or checks that the mesh does.
absl::Status UseDevices(int64_t devices, Inputs* inputs) {
  WEFT_ASSIGN_OR_RETURN(inputs->cluster, planner::PartOfCluster(inputs->cluster, devices));
  const int64_t ranks = MeshRanks(inputs->plan.mesh()), replicas = AxisSize(inputs->plan.mesh(), "data");
  if (ranks == devices) return absl::OkStatus();
  if (replicas == 1 && ranks <= devices && devices % ranks == 0) {
    return ApplySetting(absl::StrCat("dp=", devices / ranks), &inputs->recipe, &inputs->plan);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--gpus=", devices, ": the mesh has ", ranks, " ranks, which ",
      replicas > 1 ? "must equal the number of devices" : "must divide the number of devices",
      "; nearest: --gpus=", replicas > 1 ? ranks : std::max<int64_t>(1, (devices + ranks / 2) / ranks) * ranks));
}

// Refuses a cluster that does not state the memory of its devices.
absl::Status CheckMemoryIsStated(const Cluster& cluster) {
  if (cluster.device().memory_bytes() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "cluster ", Quoted(cluster.name()),
      ": device.memory_bytes is not set, so weft cannot tell whether a plan fits; set it, e.g. device { memory_bytes: "
      "85899345920 } for 80 GiB"));
}

absl::Status CheckFits(const FitReport& report) {
  if (report.fits()) return absl::OkStatus();
  if (report.headroom_bytes() >= 0) {
    return absl::ResourceExhaustedError(absl::StrCat("the plan needs ", BytesText(report.planned_host_bytes()),
                                                     " of host memory per node; ", report.cluster(), " has ",
                                                     BytesText(report.host_capacity_bytes())));
  }
  return absl::ResourceExhaustedError(absl::StrCat("the plan needs ", BytesText(-report.headroom_bytes()),
                                                   " more than a device of ", report.cluster(), " has"));
}

}  // namespace

absl::Status FitCommand(absl::Span<const std::string> args) {
  FitRequest request;
  Flags flags("weft fit", "--model=M --cluster=C [--recipe=R] [--plan=P] [flags]",
              "Says whether a plan fits in memory, what takes the memory on each rank, and which changes make it fit\n"
              "or still leave room.");
  AddFlags(&flags, &request);
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 0, 0));
  if (flags.help_wanted()) return Print(flags.Help());

  Progress progress;
  WEFT_ASSIGN_OR_RETURN(std::optional<Runtime> runtime, LoadRuntime(request.runtime));
  if (runtime->name() == "weft") runtime.reset();
  WEFT_ASSIGN_OR_RETURN(Inputs inputs, LoadInputs(request.input, &progress));
  WEFT_RETURN_IF_ERROR(CheckMemoryIsStated(inputs.cluster));
  if (runtime) WEFT_RETURN_IF_ERROR(ApplyRuntime(*runtime, request.input, &inputs));
  if (request.devices > 0) WEFT_RETURN_IF_ERROR(UseDevices(request.devices, &inputs));
  progress.Step(absl::StrCat("fitting ", inputs.model.name()));
  const planner::FitOptions partial{.model = inputs.model,
                                    .recipe = inputs.recipe,
                                    .plan = inputs.plan,
                                    .cluster = inputs.cluster,
                                    .cost = sim::BestCostModel(inputs.cluster),
                                    .runtime = runtime ? &*runtime : nullptr,
                                    .exact = request.exact};
  std::optional<FewestDevices> fewest;
  if (request.devices == kAnyNumber) {
    absl::StatusOr<FewestDevices> found = planner::FewestThatFit(partial);
    WEFT_RETURN_IF_ERROR(WithFile(found.status(), request.input, inputs));
    // The report describes the plan that was found.
    inputs.plan = found->plan();
    inputs.recipe.set_microbatch_sequences(found->microbatch_sequences());
    fewest = *std::move(found);
  }
  if (runtime) ChooseMicrobatch(*runtime, &inputs);
  absl::StatusOr<FitReport> report = planner::Fit(partial);
  WEFT_RETURN_IF_ERROR(WithFile(report.status(), request.input, inputs));
  if (fewest) *report->mutable_fewest() = *std::move(fewest);
  progress.Done();
  for (const std::string& note : inputs.notes) PrintNote(note);
  std::string text = PrintableLines(planner::FitReportText(*report));
  if (request.format == "json") {
    WEFT_ASSIGN_OR_RETURN(text, MessageToJson(*report));
  }
  WEFT_RETURN_IF_ERROR(Print(text));
  return request.require_fit ? CheckFits(*report) : absl::OkStatus();
}

}  // namespace weft
