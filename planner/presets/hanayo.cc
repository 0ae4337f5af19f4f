// Preset "hanayo": Liu et al. 2023, "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model
// Training Efficiency" (SC 2023, arXiv:2308.15762).
//
// "We explored all possible wave numbers and selected the best-performing one" (sec. 5.2), for each division of the
// devices into P pipeline ranks and D replicas (sec. 5.3). Here weft simulates them instead of measuring. W waves cut
// the model into 2 W P stages, so W goes from 1 in powers of two "as long as there are sufficient layers" (sec. 3.3): 2
// W P blocks. A replica has as many microbatches as pipeline ranks, unless the recipe states the microbatch.
//
// Reports show equation 1, the ratio of idle time, beside the simulated times:
//
//           T_B / W + (1 + 2 W + 2/P + (P-2)/3) T_C
//   ---------------------------------------------------------------
//   P/(P-1) T_F + (1/(2W) + P/(P-1)) T_B + ((P-2)/2 + 4 W) T_C
//
// T_F and T_B are the times of a forward and a backward of all of a rank's layers, T_C of one message. The modeled
// iteration is P (T_F + T_B) / (1 - ratio).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/presets/candidates.h"
#include "planner/presets/hanayo_model.h"
#include "planner/presets/preset.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

constexpr char kName[] = "hanayo";

absl::Status Estimate(const PresetRequest& request, const AlphaBeta& link, PresetCandidate* candidate) {
  const FoundPlan& found = candidate->tried.found;
  const int64_t ranks = AxisSize(found.plan.mesh(), "pipe");
  const int64_t microbatches = found.recipe.global_batch_sequences() /
                               (AxisSize(found.plan.mesh(), "data") * found.recipe.microbatch_sequences());
  WEFT_ASSIGN_OR_RETURN(const BlockProfile profile, ProfileOf(request, *candidate));
  const ModelCosts costs = CostsOfModel(profile);
  const auto p = static_cast<double>(ranks);
  const double forward = costs.forward / p, backward = costs.backward / p;
  const double idle =
      HanayoBubbleRatio(ranks, found.plan.schedule().waves(), {forward, backward, link.Seconds(costs.message_bytes)});
  // Equation 1 is for as many microbatches as ranks.
  if (microbatches == ranks) candidate->modeled_seconds = p * (forward + backward) / (1 - idle);
  candidate->figures = absl::StrFormat("P=%d D=%d W=%d, idle %.1f %% by equation 1", ranks,
                                       AxisSize(found.plan.mesh(), "data"), found.plan.schedule().waves(), 100 * idle);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PresetChoice> ChooseByHanayo(const PresetRequest& request) {
  WEFT_RETURN_IF_ERROR(CheckPlan(request, kName, {"pipe", "data"}, /*chooses_schedule=*/true));
  WEFT_ASSIGN_OR_RETURN(const AlphaBeta link, LinkOf(request, kName));
  const int64_t batch = request.recipe.global_batch_sequences(), blocks = BlocksOf(request.context.model);
  PresetChoice choice;
  for (const int64_t ranks : DivisorsOf(request.devices)) {
    const int64_t data = request.devices / ranks, own = request.recipe.microbatch_sequences();
    const int64_t size = own > 0 ? own : batch / request.devices;
    if (ranks < 2 || size < 1 || batch % (data * size) != 0 || (own == 0 && batch % request.devices != 0)) continue;
    if (!Allows(request, "pipe", ranks) || !Allows(request, "data", data)) continue;
    for (int64_t waves = 1; 2 * waves * ranks <= blocks; waves *= 2) {
      WEFT_ASSIGN_OR_RETURN(PresetCandidate candidate,
                            MakeCandidate(request, {{"pp", ranks}, {"dp", data}},
                                          absl::StrCat("mbs=", size, " schedule=hanayo waves=", waves)));
      choice.candidates.push_back(std::move(candidate));
    }
  }
  if (choice.candidates.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("preset hanayo: no number of pipeline ranks is possible; it must be at least 2, divide the ",
                     request.devices, " devices, and be at most half the number of the model's blocks (",
                     std::max<int64_t>(0, blocks), "); and recipe.global_batch_sequences = ", batch,
                     " must be a multiple of ", request.devices, ", or set recipe.microbatch_sequences"));
  }
  TryAll(request, &choice.candidates);
  for (PresetCandidate& candidate : choice.candidates) {
    if (candidate.tried.status.ok()) WEFT_RETURN_IF_ERROR(Estimate(request, link, &candidate));
  }
  choice.chosen = FastestOf(choice.candidates);
  return choice;
}

}  // namespace weft::planner
