// What presets share: plans from axes and settings, the checks of what a user fixes, and links.
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

// Ascending.
std::vector<int64_t> DivisorsOf(int64_t number);

// Sizes up to `most` that the preset may try for a microbatch: the recipe's own, or the powers of two. Ascending.
std::vector<int64_t> MicrobatchSizes(const PresetRequest& request, int64_t most);

// False if the user fixes the axis at another size.
bool Allows(const PresetRequest& request, absl::string_view axis, int64_t size);

// InvalidArgument if the plan has an axis larger than 1 that is not in `axes`, or if it sets the schedule although the
// preset chooses it.
absl::Status CheckPlan(const PresetRequest& request, absl::string_view preset, absl::Span<const absl::string_view> axes,
                       bool chooses_schedule);

// The user's plan with these axes, innermost first, named as --set names them, and with further settings.
absl::StatusOr<PresetCandidate> MakeCandidate(const PresetRequest& request,
                                              absl::Span<const std::pair<absl::string_view, int64_t>> axes,
                                              const std::string& settings);

// The setting " recompute.mode=MODE"; empty if the user's plan fixes the recompute.
std::string RecomputeSetting(const PresetRequest& request, absl::string_view mode);

// Cuts the model into equal numbers of blocks if the plan does not state a cut: the first stage also has the embedding,
// the last one the head. Does nothing if there are fewer blocks than stages.
void CutEvenly(const PresetRequest& request, int64_t stages, PresetCandidate* candidate);
// Layers of the model, without the first and the last one.
int64_t BlocksOf(const ModelGraph& model);
int64_t ParametersOf(const ModelGraph& model);

// Compiles, proves and simulates the candidate, as weft compile would.
void Try(const PresetRequest& request, PresetCandidate* candidate);
// The same, unless the model's states alone do not fit (least_state_bytes.h); `device_bytes` is then what they take.
void TryIfStatesFit(const PresetRequest& request, PresetCandidate* candidate);
// The same as Try for several, on the threads of the request.
void TryAll(const PresetRequest& request, std::vector<PresetCandidate>* candidates);

// The index of the candidate that fits and simulates fastest, the first of several; their number if none fits.
size_t FastestOf(const std::vector<PresetCandidate>& candidates);

// Times and bytes of the model's layers with the candidate's microbatch, on one replica. A recompute that lists layers
// or intervals counts as none.
absl::StatusOr<BlockProfile> ProfileOf(const PresetRequest& request, const PresetCandidate& candidate);
// Of all layers. Times in seconds.
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
// The link between nodes if the devices are on several, else the one within a node. Devices of a node share its
// network interfaces. A runtime's transport through host memory and its time per message count too. FailedPrecondition
// names the field that the cluster lacks.
absl::StatusOr<AlphaBeta> LinkOf(const PresetRequest& request, absl::string_view preset);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_PRESETS_CANDIDATES_H_
