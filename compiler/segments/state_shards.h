// Describes ZeRO for the passes: which model states are sharded, and over how many data replicas.
#ifndef WEFT_COMPILER_SEGMENTS_STATE_SHARDS_H_
#define WEFT_COMPILER_SEGMENTS_STATE_SHARDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/plan.pb.h"

namespace weft {

// In a list of axes, this name stands for the data replicas that are in different groups and hold the same part.
constexpr char kOverGroups[] = "data:groups";

struct StateShards {
  // The ZeRO stage, as in plan.zero.stage; 0 if nothing is sharded.
  int32_t stage = 0;
  // Number of adjacent ranks on the axis `data` that share one copy of the states.
  int64_t members = 1;
  // Equal to `members` if fewer than all replicas share a copy, else 0.
  int64_t block = 0;
  // Stage 3: layers whose parameters stay whole.
  std::vector<int32_t> kept_layers = {};
  // Stage 3: if true, the parameters that a forward gathers stay on the device until its backward.
  bool keep_for_backward = false;
  // Stage 3: number of layers by which gathers run ahead of the layer that computes; -1 = like all other gathers.
  int32_t prefetch = -1;
};

// `plan` must have passed validation. BY_BENEFIT counts as AFTER_FORWARD until it is resolved (choose_reshard.h). NEVER
// counts as stage 2, because parameters are whole whenever they are used.
StateShards StateShardsOf(const Plan& plan);

// The name of the steps that gather the parameters of a layer from other data replicas, or that scatter its gradients
// over them. Passes may append a suffix.
std::string NameOfLayerSteps(int64_t layer);
// Returns the layer of a step with such a name; nullopt for other names.
std::optional<int32_t> LayerOfNamedStep(absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_STATE_SHARDS_H_
