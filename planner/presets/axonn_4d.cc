// Preset "axonn-4d": Singh et al. 2023, "A 4D hybrid algorithm to scale parallel training to thousands of GPUs"
// (arXiv:2305.13525).
//
// Ranks all grids x * y * z * data of the devices by the time of their collectives: equations 1 to 9 with the
// placement-aware bandwidths of equation 10 (sec. V-B, four_d_model.h). "This model returns a small set of near-optimal
// configurations", which users then measure (sec. V). Here weft simulates the first `wanted` grids that fit, and the
// fastest is the choice.
//
// Every layer is recomputed, as in the paper's runs. As the microbatch, the preset tries a replica's share of the
// batch, then half of it, a quarter and so on, down to one sequence for each rank of z. It takes the first that fits.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/presets/candidates.h"
#include "planner/presets/four_d_model.h"
#include "planner/presets/preset.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "proto/util/units_text.h"

namespace weft::planner {
namespace {

constexpr char kName[] = "axonn-4d";

struct RankedGrid {
  FourDGrid grid;
  double seconds = 0;
};

absl::StatusOr<std::vector<RankedGrid>> Rank(const PresetRequest& request) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<FourDLayer> layers, FourDLayers(request.context.model));
  const int64_t batch = request.recipe.global_batch_sequences();
  const auto element = static_cast<double>(DTypeBytes(request.plan.precision().compute()));
  std::vector<RankedGrid> ranked;
  for (const int64_t x : DivisorsOf(request.devices)) {
    for (const int64_t y : DivisorsOf(request.devices / x)) {
      for (const int64_t z : DivisorsOf(request.devices / x / y)) {
        const FourDGrid grid = {x, y, z, request.devices / x / y / z};
        if (!Allows(request, "x", x) || !Allows(request, "y", y) || !Allows(request, "z", z)) continue;
        if (!Allows(request, "data", grid.data) || batch % (z * grid.data) != 0) continue;
        WEFT_ASSIGN_OR_RETURN(const FourDBandwidths rates, PlacementAwareBandwidths(grid, request.context.cluster));
        const auto rows = static_cast<double>(batch / grid.data * request.recipe.sequence_length());
        ranked.push_back({grid, FourDSeconds(layers, grid, rows, element, rates)});
      }
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const RankedGrid& a, const RankedGrid& b) { return a.seconds < b.seconds; });
  return ranked;
}

// Returns the grid with the largest microbatch that fits, else with the last that was tried.
absl::StatusOr<PresetCandidate> Simulated(const PresetRequest& request, const RankedGrid& ranked, int place) {
  const auto& [x, y, z, data] = ranked.grid;
  const int64_t share = request.recipe.global_batch_sequences() / data;
  const int64_t own = request.recipe.microbatch_sequences();
  PresetCandidate candidate;
  for (int64_t size = own > 0 ? own : share; size >= 1; size /= 2) {
    WEFT_ASSIGN_OR_RETURN(candidate, MakeCandidate(request, {{"x", x}, {"y", y}, {"z", z}, {"dp", data}},
                                                   absl::StrCat("mbs=", size, RecomputeSetting(request, "FULL"))));
    candidate.figures = absl::StrFormat("rank %d, collectives %s", place, SecondsText(ranked.seconds));
    TryIfStatesFit(request, &candidate);
    const bool smaller = own == 0 && size % 2 == 0 && (size / 2) % z == 0;
    if (candidate.fits() || !candidate.tried.status.ok() || !smaller) break;
  }
  return candidate;
}

}  // namespace

absl::StatusOr<PresetChoice> ChooseByAxonn4d(const PresetRequest& request) {
  WEFT_RETURN_IF_ERROR(CheckPlan(request, kName, {"x", "y", "z", "data"}, /*chooses_schedule=*/true));
  WEFT_ASSIGN_OR_RETURN(const std::vector<RankedGrid> ranked, Rank(request));
  if (ranked.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("preset axonn-4d: no grid of ", request.devices,
                     " devices has a product z * data that divides recipe.global_batch_sequences = ",
                     request.recipe.global_batch_sequences()));
  }
  PresetChoice choice;
  int fit = 0;
  for (size_t next = 0; next < ranked.size() && fit < request.wanted;) {
    // Simulate as many grids at once as are still wanted, whatever the number of threads, so that the answer does not
    // depend on it.
    const size_t count = std::min(ranked.size() - next, static_cast<size_t>(request.wanted - fit));
    std::vector<PresetCandidate> made(count);
    std::vector<absl::Status> failed(count);
    ForAll(count, request.context.threads, [&](size_t i) {
      absl::StatusOr<PresetCandidate> one = Simulated(request, ranked[next + i], static_cast<int>(next + i) + 1);
      if (one.ok()) made[i] = *std::move(one);
      failed[i] = one.status();
    });
    for (const absl::Status& status : failed) WEFT_RETURN_IF_ERROR(status);
    for (PresetCandidate& candidate : made) {
      fit += candidate.fits() ? 1 : 0;
      choice.candidates.push_back(std::move(candidate));
    }
    next += count;
  }
  choice.chosen = FastestOf(choice.candidates);
  return choice;
}

}  // namespace weft::planner
