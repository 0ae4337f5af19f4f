// Preset "chimera": Li and Hoefler 2021, "Chimera: Efficiently Training Large-Scale Neural Networks with Bidirectional
// Pipelines" (arXiv:2107.06925).
//
// The paper's names: P devices run W replicas of a pipeline of D stages, D even; a batch of B^ sequences has N = B^ /
// (W B) microbatches of B sequences. For each D that divides P:
// 1. B is the largest power of two that fits the memory and leaves N >= D (sec. 3.4 and 3.5), or 1 if none leaves that
//    many. If no B fits, all layers are recomputed, and B is again the largest that fits.
// 2. Equation 1 gives the time of an iteration (chimera_model.h). F_t is measured: the forward of the whole model by
//    weft's cost model, divided by D, because a critical path crosses every stage. B_t = 2 F_t, or 3 F_t with
//    recomputation. r = 2 W, because each pipeline has two replicas of each stage.
// The W and D with the least time win. If N > D, the paper chooses the way to scale by "empirical results" (sec. 3.5),
// so the preset simulates all three ways.
//
// Stages have equal numbers of blocks (sec. 4.2.3), and gradients are summed as by eager-sync-opt (sec. 3.2).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/inputs/plan_schedule.h"
#include "planner/presets/candidates.h"
#include "planner/presets/chimera_model.h"
#include "planner/presets/preset.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units_text.h"

namespace weft::planner {
namespace {

constexpr char kName[] = "chimera";

struct Shape {
  int64_t width = 0, depth = 0;
  // Sequences that one replica trains in an iteration.
  int64_t sequences = 0;
};

absl::StatusOr<PresetCandidate> Make(const PresetRequest& request, const Shape& shape, int64_t microbatch,
                                     absl::string_view more) {
  WEFT_ASSIGN_OR_RETURN(
      PresetCandidate candidate,
      MakeCandidate(request, {{"pp", shape.depth}, {"dp", shape.width}},
                    absl::StrCat("mbs=", microbatch, " schedule=chimera gradient_sync=EAGER_OPT", more)));
  CutEvenly(request, shape.depth, &candidate);
  return candidate;
}

// Returns the sizes of B to try, largest first.
std::vector<int64_t> SizesFor(const PresetRequest& request, const Shape& shape) {
  std::vector<int64_t> sizes;
  const bool fixed = request.recipe.microbatch_sequences() > 0;
  for (const int64_t size : MicrobatchSizes(request, shape.sequences)) {
    if (shape.sequences % size != 0) continue;
    if (fixed || size == 1 || shape.sequences / size >= shape.depth) sizes.insert(sizes.begin(), size);
  }
  return sizes;
}

// Returns the plan with the largest microbatch that fits, without recomputation if possible; if none fits, the last
// that was tried.
absl::StatusOr<PresetCandidate> LargestThatFits(const PresetRequest& request, const Shape& shape) {
  PresetCandidate candidate;
  std::vector<std::string> recomputes = {""};
  if (!request.plan.has_recompute()) recomputes.push_back(RecomputeSetting(request, "FULL"));
  for (const std::string& recompute : recomputes) {
    for (const int64_t size : SizesFor(request, shape)) {
      WEFT_ASSIGN_OR_RETURN(candidate, Make(request, shape, size, recompute));
      Try(request, &candidate);
      if (candidate.fits()) return candidate;
    }
  }
  return candidate;
}

int64_t MicrobatchesOf(const FoundPlan& found) {
  return found.recipe.global_batch_sequences() /
         (found.recipe.microbatch_sequences() * AxisSize(found.plan.mesh(), "data"));
}

absl::Status Estimate(const PresetRequest& request, const AlphaBeta& link, PresetCandidate* candidate) {
  const FoundPlan& found = candidate->tried.found;
  const auto depth = static_cast<int>(AxisSize(found.plan.mesh(), "pipe"));
  const int64_t width = AxisSize(found.plan.mesh(), "data");
  const auto microbatches = static_cast<int>(MicrobatchesOf(found));
  WEFT_ASSIGN_OR_RETURN(const BlockProfile profile, ProfileOf(request, *candidate));
  WEFT_ASSIGN_OR_RETURN(const PipelineSchedule schedule,
                        ScheduleOf(ChoiceOf(found.plan.schedule(), depth, microbatches, {})));
  const ModelCosts costs = CostsOfModel(profile);
  const bool recomputes = found.plan.recompute().mode() != Recompute::NONE;
  ChimeraTimes times = {.forward = costs.forward / depth, .p2p = link.Seconds(costs.message_bytes)};
  times.backward = (recomputes ? 3 : 2) * times.forward;
  int32_t layer = 0;
  for (const int32_t layers : found.plan.partition().layers_per_stage()) {
    const int64_t bytes = profile.CostsOf(layer, layer + layers, /*sharded=*/false).gradient_bytes;
    times.sums.push_back(RabenseifnerSeconds(static_cast<double>(bytes), 2 * width, link));
    layer += layers;
  }
  times.sums.resize(static_cast<size_t>(schedule.stages));
  WEFT_ASSIGN_OR_RETURN(const ChimeraEstimate estimate, EstimateChimera(schedule, microbatches, times));
  candidate->modeled_seconds = estimate.seconds;
  candidate->figures =
      absl::StrFormat("W=%d D=%d B=%d N=%d, C_f=%d C_b=%d, F_t=%s B_t=%s p2p=%s, sums not hidden %s", width, depth,
                      found.recipe.microbatch_sequences(), microbatches, estimate.forwards, estimate.backwards,
                      SecondsText(times.forward), SecondsText(times.backward), SecondsText(times.p2p),
                      SecondsText(estimate.unoverlapped));
  return absl::OkStatus();
}

// Appends the chosen plan with the two other ways to scale, and chooses the fastest of the three.
absl::Status ChooseScaling(const PresetRequest& request, PresetChoice* choice) {
  const FoundPlan found = choice->candidates[choice->chosen].tried.found;
  const Shape shape = {.width = AxisSize(found.plan.mesh(), "data"), .depth = AxisSize(found.plan.mesh(), "pipe")};
  const bool recomputes = found.plan.recompute().mode() == Recompute::FULL;
  const std::string recompute = recomputes ? RecomputeSetting(request, "FULL") : "";
  std::vector<PresetCandidate> scaled;
  for (const char* scaling : {"FORWARD_DOUBLING", "BACKWARD_HALVING"}) {
    WEFT_ASSIGN_OR_RETURN(PresetCandidate candidate, Make(request, shape, found.recipe.microbatch_sequences(),
                                                          absl::StrCat(recompute, " scaling=", scaling)));
    candidate.figures = "the same W, D and B, for N > D";
    scaled.push_back(std::move(candidate));
  }
  TryAll(request, &scaled);
  const double concatenated = found.report.iteration_seconds();
  const size_t fastest = FastestOf(scaled);
  const size_t before = choice->candidates.size();
  if (fastest < scaled.size() && scaled[fastest].tried.found.report.iteration_seconds() < concatenated) {
    choice->chosen = before + fastest;
  }
  for (PresetCandidate& candidate : scaled) choice->candidates.push_back(std::move(candidate));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PresetChoice> ChooseByChimera(const PresetRequest& request) {
  WEFT_RETURN_IF_ERROR(CheckPlan(request, kName, {"pipe", "data"}, /*chooses_schedule=*/true));
  WEFT_ASSIGN_OR_RETURN(const AlphaBeta link, LinkOf(request, kName));
  const int64_t blocks = BlocksOf(request.context.model);
  const int64_t batch = request.recipe.global_batch_sequences();
  std::vector<Shape> shapes;
  for (const int64_t depth : DivisorsOf(request.devices)) {
    const int64_t width = request.devices / depth;
    const Shape shape = {width, depth, batch / width};
    if (depth % 2 != 0 || depth > blocks || batch % shape.width != 0) continue;
    if (!Allows(request, "pipe", depth) || !Allows(request, "data", shape.width)) continue;
    if (!SizesFor(request, shape).empty()) shapes.push_back(shape);
  }
  if (shapes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("preset chimera: no number of pipeline ranks is possible; it must be even, divide the ",
                     request.devices, " devices, and be at most ", std::max<int64_t>(0, blocks),
                     " (the model's blocks), and the replicas times the microbatch size must divide "
                     "recipe.global_batch_sequences = ",
                     batch));
  }
  PresetChoice choice;
  choice.candidates.resize(shapes.size());
  std::vector<absl::Status> failed(shapes.size());
  ForAll(shapes.size(), request.context.threads, [&](size_t i) {
    absl::StatusOr<PresetCandidate> made = LargestThatFits(request, shapes[i]);
    if (made.ok()) choice.candidates[i] = *std::move(made);
    failed[i] = made.status();
    if (failed[i].ok() && choice.candidates[i].fits()) failed[i] = Estimate(request, link, &choice.candidates[i]);
  });
  for (const absl::Status& status : failed) WEFT_RETURN_IF_ERROR(status);
  choice.chosen = choice.candidates.size();
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    if (!choice.candidates[i].fits()) continue;
    const bool first = choice.chosen == choice.candidates.size();
    if (first || choice.candidates[i].modeled_seconds < choice.candidates[choice.chosen].modeled_seconds) {
      choice.chosen = i;
    }
  }
  if (choice.chosen < choice.candidates.size()) {
    const FoundPlan& found = choice.candidates[choice.chosen].tried.found;
    if (MicrobatchesOf(found) > AxisSize(found.plan.mesh(), "pipe"))
      WEFT_RETURN_IF_ERROR(ChooseScaling(request, &choice));
  }
  return choice;
}

}  // namespace weft::planner
