// Preset "axonn": Singh and Bhatele 2021, "AxoNN: An asynchronous, message-driven parallel framework for extreme-scale
// deep learning" (arXiv:2110.13005).
//
// The devices form G_inter pipeline ranks times G_data replicas. Pipelines lose efficiency as G_inter grows, and
// replicas cost little (sec. V-B). So the preset takes the smallest G_inter with which the plan fits, with AxoNN's
// memory optimizations:
// - Master weights and moments are in host memory and come to the device in buckets of b elements. By the paper, states
//   then take 4 phi / G_inter + 16 b bytes of a device, for phi parameters, instead of 20 phi / G_inter.
// - At most G_inter microbatches are in flight (the paper's pipeline_limit, sec. IV-A).
// - Activations are checkpointed every ac layers, with ac near the square root of the number of layers (sec. V-A;
//   recompute.mode AXONN).
// A plan fits if the arenas of its compiled program fit.
//
// The microbatch is "a user-defined hyperparameter" (sec. III-C), so the preset uses the recipe's. If the recipe has
// none, the preset finds G_inter with a microbatch of one. It then simulates the powers of two that fit with this
// G_inter and takes the fastest, as the authors tuned table II.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/presets/candidates.h"
#include "planner/presets/preset.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units_text.h"

namespace weft::planner {
namespace {

constexpr char kName[] = "axonn";
// Elements of a bucket (sec. V-B), if the plan states none.
constexpr int64_t kBucket = 16'000'000;

absl::StatusOr<PresetCandidate> Make(const PresetRequest& request, int64_t inter, int64_t microbatch) {
  const int64_t own = request.plan.offload().bucket_elements();
  const int64_t bucket = own > 0 ? own : kBucket;
  const std::string settings =
      absl::StrCat("mbs=", microbatch, inter > 1 ? absl::StrCat(" schedule=axonn limit=", inter) : "",
                   RecomputeSetting(request, "AXONN"), " offload.optimizer=true offload.bucket_elements=", bucket);
  WEFT_ASSIGN_OR_RETURN(PresetCandidate candidate,
                        MakeCandidate(request, {{"pp", inter}, {"dp", request.devices / inter}}, settings));
  CutEvenly(request, inter, &candidate);
  const int64_t states = 4 * ParametersOf(request.context.model) / inter + 16 * bucket;
  candidate.figures =
      absl::StrFormat("G_inter=%d G_data=%d, states %s", inter, request.devices / inter, BytesText(states));
  return candidate;
}

}  // namespace

absl::StatusOr<PresetChoice> ChooseByAxonn(const PresetRequest& request) {
  WEFT_RETURN_IF_ERROR(CheckPlan(request, kName, {"pipe", "data"}, /*chooses_schedule=*/true));
  const Cluster& cluster = request.context.cluster;
  if (!(cluster.host().bytes_per_second() > 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cluster ", Quoted(cluster.name()), " has no host.bytes_per_second, which preset axonn needs"));
  }
  const int64_t batch = request.recipe.global_batch_sequences(), own = request.recipe.microbatch_sequences();
  const int64_t least = std::max<int64_t>(1, own);
  PresetChoice choice;
  int64_t inter = 0;
  for (const int64_t ranks : DivisorsOf(request.devices)) {
    const int64_t data = request.devices / ranks;
    if (!Allows(request, "pipe", ranks) || !Allows(request, "data", data) || batch % (data * least) != 0) continue;
    if (ranks > BlocksOf(request.context.model)) break;
    WEFT_ASSIGN_OR_RETURN(PresetCandidate candidate, Make(request, ranks, least));
    TryIfStatesFit(request, &candidate);
    choice.candidates.push_back(std::move(candidate));
    if (!choice.candidates.back().fits()) continue;
    inter = ranks;
    break;
  }
  if (choice.candidates.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("preset axonn: no number of pipeline ranks is possible; it must be at most ",
                     std::max<int64_t>(0, BlocksOf(request.context.model)), " (the model's blocks) and divide the ",
                     request.devices, " devices, and the replicas times the microbatch size must divide ",
                     "recipe.global_batch_sequences = ", batch));
  }
  choice.chosen = choice.candidates.size() - (inter > 0 ? 1 : 0);
  if (inter == 0 || own > 0) return choice;
  for (int64_t size = 2; batch % (request.devices / inter * size) == 0; size *= 2) {
    WEFT_ASSIGN_OR_RETURN(PresetCandidate candidate, Make(request, inter, size));
    Try(request, &candidate);
    choice.candidates.push_back(std::move(candidate));
    if (!choice.candidates.back().fits()) break;
  }
  choice.chosen = FastestOf(choice.candidates);
  return choice;
}

}  // namespace weft::planner
