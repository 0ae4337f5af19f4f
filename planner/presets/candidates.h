// Helpers that the presets share: plans from axes and settings, checks of the fields that a user fixes, and links.
#ifndef WEFT_PLANNER_PRESETS_CANDIDATES_H_
#define WEFT_PLANNER_PRESETS_CANDIDATES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/presets/preset.h"
#include "planner/search/block_profile.h"

namespace weft::planner {

// Returns the divisors of a number, ascending.
std::vector<int64_t> DivisorsOf(int64_t number);

// Returns the microbatch sizes up to `most` that the preset may try, ascending: the recipe's size, or the powers of two
// if the recipe has none.
std::vector<int64_t> MicrobatchSizes(const PresetRequest& request, int64_t most);

// Returns false if the user fixes the axis at another size.
bool Allows(const PresetRequest& request, absl::string_view axis, int64_t size);

// Returns InvalidArgument if the plan has an axis larger than 1 that is not in `axes`, or if it sets the schedule
// although the preset chooses the schedule.
absl::Status CheckPlan(const PresetRequest& request, absl::string_view preset, absl::Span<const absl::string_view> axes,
                       bool chooses_schedule);

// Returns the user's plan with these axes and with further settings. Axes are listed innermost first, with the names
// that --set uses.
absl::StatusOr<PresetCandidate> MakeCandidate(const PresetRequest& request,
                                              absl::Span<const std::pair<absl::string_view, int64_t>> axes,
                                              const std::string& settings);

// Returns the setting " recompute.mode=MODE"; empty if the user's plan fixes the recompute.
std::string RecomputeSetting(const PresetRequest& request, absl::string_view mode);

// Cuts the model into stages with equal numbers of blocks, if possible, as LayersPerStage does
// (compiler/inputs/stage_cut.h). The first stage also has the embedding, the last one the head. Does nothing if the
// plan states a cut, or if there are fewer blocks than stages.
void CutEvenly(const PresetRequest& request, int64_t stages, PresetCandidate* candidate);
// Returns the number of layers of the model, without the first and the last one.
int64_t BlocksOf(const ModelGraph& model);
int64_t ParametersOf(const ModelGraph& model);

// Compiles, proves and simulates the candidate, as weft compile would.
void Try(const PresetRequest& request, PresetCandidate* candidate);
// Does the same, unless the model's states alone do not fit (least_state_bytes.h). Then it only sets `device_bytes` to
// the bytes of the states.
void TryIfStatesFit(const PresetRequest& request, PresetCandidate* candidate);
// Calls Try for all candidates, on the threads of the request.
void TryAll(const PresetRequest& request, std::vector<PresetCandidate>* candidates);

// Returns the index of the candidate that fits and simulates fastest, the first of equals; candidates.size() if none
// fits.
size_t FastestOf(const std::vector<PresetCandidate>& candidates);

// Returns the times and bytes of the model's layers with the candidate's microbatch, on one replica. Only the recompute
// modes FULL and SELECTIVE count; the others count as NONE.
absl::StatusOr<BlockProfile> ProfileOf(const PresetRequest& request, const PresetCandidate& candidate);
// Costs of all layers of a model. Times are in seconds.
struct ModelCosts {
  double forward = 0;
  double backward = 0;
  // Bytes of a message between two stages.
  double message_bytes = 0;
};
ModelCosts CostsOfModel(const BlockProfile& profile);

// A link between two devices by the alpha-beta model: seconds of a message, and seconds per further byte.
struct AlphaBeta {
  double alpha = 0;
  double beta = 0;
  double Seconds(double bytes) const { return alpha + beta * bytes; }
};
// Returns the link between nodes if the devices are on several nodes, else the link within a node. The devices of a
// node share its network interfaces. The link includes the runtime's transport through host memory and its time per
// message. Returns FailedPrecondition, with the name of the field, if the cluster lacks the bandwidth.
absl::StatusOr<AlphaBeta> LinkOf(const PresetRequest& request, absl::string_view preset);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_PRESETS_CANDIDATES_H_
