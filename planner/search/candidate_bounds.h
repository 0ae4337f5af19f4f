// Bounds of the plans of a space: makes the profiles that they need and finds the profile, the stage cut and the
// network times of each plan.
#ifndef WEFT_PLANNER_SEARCH_CANDIDATE_BOUNDS_H_
#define WEFT_PLANNER_SEARCH_CANDIDATE_BOUNDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/search/block_profile.h"
#include "planner/search/layer_runs.h"
#include "planner/search/plan_bound.h"
#include "planner/search/profile_cache.h"
#include "planner/search/search_context.h"
#include "planner/search/space.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

class CandidateBounds {
 public:
  // `context` and `space` are borrowed.
  CandidateBounds(const SearchContext& context, const Space& space);

  // Builds the schedules and profiles of all plans of the space. Returns false if `stop` ended it early; then nothing
  // else may be called.
  bool Prepare(const std::function<bool()>& stop);

  // Plans of the space, and profiles that they need.
  int64_t plans() const { return plans_; }
  int64_t profiles() const { return static_cast<int64_t>(profiles_.size()); }

  // The functions below take recipes and plans of the space.

  // Fails if the plan is refused: its schedule cannot be built or has no static order, its layers cannot be cut, or its
  // blocks do not compile.
  absl::StatusOr<PlanBound> Bound(const Recipe& recipe, const Plan& plan);

  // The rest is for plans for which Bound succeeded. These calls may run at the same time as each other, but not as
  // Bound. Tighten is TightenBound (plan_bound.h).
  absl::Status Tighten(const Recipe& recipe, const Plan& plan, PlanBound* bound) const;
  const absl::StatusOr<ScheduleShape>& ShapeOf(const Recipe& recipe, const Plan& plan) const;
  // Layers of each stage: the plan's own, or the runtime's, or those whose slowest stage is as fast as possible.
  const std::vector<int32_t>& CutOf(const Recipe& recipe, const Plan& plan) const;

 private:
  using Shape = absl::StatusOr<ScheduleShape>;
  using Profile = CachedProfile;
  // The schedule's fields, pipe ranks, microbatches.
  using ShapeKey = std::tuple<std::string, int64_t, int64_t>;
  // The profile's key, stages, and under a runtime the schedule's fields.
  using CutKey = std::tuple<std::string, int, std::string>;
  // The mesh, bytes of messages to the next stage, and back.
  using NetworkKey = std::tuple<std::string, int64_t, int64_t>;
  struct ProfilesOfPlan {
    std::string key;
    const BlockProfile* profile = nullptr;
    // BoundInputs.recomputed.
    const BlockProfile* recomputed = nullptr;
  };

  Shape MakeShape(const PlanSchedule& schedule, int64_t ranks, int64_t microbatches) const;
  void BuildShapes();
  bool MakeProfiles(const std::function<bool()>& stop);
  absl::StatusOr<ProfilesOfPlan> ProfilesFor(const Recipe& recipe, const Plan& plan) const;
  std::vector<int32_t> MakeCut(const BlockProfile& profile, int stages, const Recipe& recipe, const Plan& plan) const;
  NetworkTimes MakeNetworkTimes(const Plan& plan, const BlockProfile& profile) const;
  static NetworkKey NetworkKeyOf(const Plan& plan, const BlockProfile& profile);
  CutKey CutKeyOf(const std::string& profile_key, int stages, const Plan& plan) const;
  // Everything in the result is borrowed.
  BoundInputs InputsOf(const Plan& plan, const ProfilesOfPlan& profiles, const ScheduleShape& shape,
                       const std::vector<int32_t>& cut, const NetworkTimes& times) const;

  const SearchContext& context_;
  const Space& space_;
  const ProfileCache cache_;
  const std::vector<LayerRun> runs_;
  const ShortModels models_;
  int64_t plans_ = 0;
  std::map<ShapeKey, std::unique_ptr<Shape>> shapes_;
  std::map<std::string, std::unique_ptr<Profile>> profiles_;
  std::map<CutKey, std::vector<int32_t>> cuts_;
  std::map<NetworkKey, NetworkTimes> network_times_;
};

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_CANDIDATE_BOUNDS_H_
