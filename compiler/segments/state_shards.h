// ZeRO as the passes need it: which model states are cut, over how many data replicas.
#ifndef WEFT_COMPILER_SEGMENTS_STATE_SHARDS_H_
#define WEFT_COMPILER_SEGMENTS_STATE_SHARDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/plan.pb.h"

namespace weft {

// In place of an axis: the data replicas that hold the same part of what each group shares.
constexpr char kOverGroups[] = "data:groups";

struct StateShards {
  // As plan.zero.stage; 0 where nothing is cut.
  int32_t stage = 0;
  // Neighbours on the axis `data` that share one copy.
  int64_t members = 1;
  // The same where these are not all replicas, else 0.
  int64_t block = 0;
  // Stage 3: layers whose parameters stay whole.
  std::vector<int32_t> kept_layers = {};
  // Stage 3: what a forward has gathered waits for its backward.
  bool keep_for_backward = false;
  // Stage 3: gathers ahead of the layer that computes; -1 = as all other gathers.
  int32_t prefetch = -1;
};

// `plan` must have passed validation. BY_BENEFIT is AFTER_FORWARD until it is resolved (choose_reshard.h), NEVER is
// stage 2: parameters are whole wherever something is computed.
StateShards StateShardsOf(const Plan& plan);

// The name of the steps that gather the parameters of a layer from other data replicas, or cut its gradients over them.
// Passes may append a suffix.
std::string NameOfLayerSteps(int64_t layer);
// Returns the layer of a step with such a name; nothing for other names.
std::optional<int32_t> LayerOfNamedStep(absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_STATE_SHARDS_H_
