// Cuts and bounds of plans whose ranks are on several kinds of devices, from the profiles of each kind.
#ifndef WEFT_PLANNER_SEARCH_MIXED_BOUNDS_H_
#define WEFT_PLANNER_SEARCH_MIXED_BOUNDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "planner/search/block_profile.h"
#include "planner/search/device_kinds.h"
#include "planner/search/kind_stores.h"
#include "planner/search/plan_bound.h"
#include "proto/plan.pb.h"

namespace weft::planner {

// Times of one forward and backward of each layer.
std::vector<int64_t> LayerTimes(const BlockProfile& profile);

// Layers of each stage, by the profiles `of_cut`: the slowest stage, on the slowest of its devices, is as fast as
// possible; if possible, its devices have room for its states (compiler/rank_kinds.h: RoomOfStages). Empty if there are
// more stages than layers.
std::vector<int32_t> CutByProfiles(const ProfilesOfKinds& of_kinds, const MeshKinds& mesh,
                                   const std::vector<std::vector<int>>& placement, const Plan& plan);

// Plans with equal keys and equal profiles have the same CutByProfiles.
std::string KeyOfMixedCut(const MeshKinds& mesh, const std::vector<std::vector<int>>& placement, const Plan& plan);

// BoundInputs.devices for a pipeline.
std::vector<RankDevice> DevicesOf(absl::Span<const int32_t> pipeline, absl::Span<const int64_t> capacities,
                                  const DeviceKinds& kinds, const ProfilesOfKinds& of_kinds);

// The bound of a plan from the inputs of each of its pipelines: the plan takes as long and as much as the worst of
// them.
PlanBound BoundOfPipelines(const std::vector<BoundInputs>& pipelines);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_MIXED_BOUNDS_H_
