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
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/search/block_profile.h"
#include "planner/search/kind_stores.h"
#include "planner/search/mixed_bounds.h"
#include "planner/search/plan_bound.h"
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

  // Builds the schedules of all plans of the space, and the profiles from which all bounds follow (profile_store.h).
  // Returns false if `stop` ended it early; then only plans() may be called.
  bool Prepare(const std::function<bool()>& stop);

  // Makes the profiles of some plans of the space, whose bounds are then no longer loose. Returns false if `stop` ended
  // it early; then some of the profiles are made.
  bool MakeProfiles(absl::Span<const std::pair<Recipe, Plan>> plans, const std::function<bool()>& stop);

  // Number of plans in the space.
  int64_t plans() const { return plans_; }

  // The functions below take recipes and plans of the space.

  // Fails if the plan is refused: its schedule cannot be built or has no static order, its layers cannot be cut, or its
  // blocks do not compile.
  absl::StatusOr<PlanBound> Bound(const Recipe& recipe, const Plan& plan);

  // Call the functions below only for plans for which Bound succeeded. Several threads may call them at the same time,
  // but not while Bound runs. Tighten calls TightenBound (plan_bound.h) unless the order of the schedule depends on the
  // costs of its slots.
  absl::Status Tighten(const Recipe& recipe, const Plan& plan, PlanBound* bound) const;
  const absl::StatusOr<ScheduleShape>& ShapeOf(const Recipe& recipe, const Plan& plan) const;
  // Returns the number of layers of each stage: as the plan says, else as the runtime cuts the model, else so that the
  // slowest stage is as fast as possible.
  const std::vector<int32_t>& CutOf(const Recipe& recipe, const Plan& plan) const;

 private:
  using Shape = absl::StatusOr<ScheduleShape>;
  // The schedule's fields, pipe ranks, microbatches.
  using ShapeKey = std::tuple<std::string, int64_t, int64_t>;
  // ProfileStore::Profiles.configuration, stages, and under a runtime the schedule's fields; with several kinds of
  // devices also KeyOfMixedCut.
  using CutKey = std::tuple<std::string, int, std::string>;
  // The mesh, bytes of messages to the next stage, and back.
  using NetworkKey = std::tuple<std::string, int64_t, int64_t>;

  Shape MakeShape(const PlanSchedule& schedule, int64_t ranks, int64_t microbatches) const;
  void BuildShapes();
  std::vector<int32_t> MakeCut(const ProfilesOfKinds& profiles, const ScheduleShape& shape, const Recipe& recipe,
                               const Plan& plan) const;
  NetworkTimes MakeNetworkTimes(const Plan& plan, const BlockProfile& profile) const;
  static NetworkKey NetworkKeyOf(const Plan& plan, const BlockProfile& profile);
  CutKey CutKeyOf(const std::string& configuration, const ScheduleShape& shape, const Plan& plan) const;
  // One for each different pipeline. Everything in the result is borrowed.
  std::vector<BoundInputs> InputsOf(const Plan& plan, const ProfilesOfKinds& profiles, const ScheduleShape& shape,
                                    const std::vector<int32_t>& cut, const NetworkTimes& times) const;

  const SearchContext& context_;
  const Space& space_;
  KindStores profiles_;
  int64_t plans_ = 0;
  std::map<ShapeKey, std::unique_ptr<Shape>> shapes_;
  std::map<CutKey, std::vector<int32_t>> cuts_;
  std::map<NetworkKey, NetworkTimes> network_times_;
};

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_CANDIDATE_BOUNDS_H_
