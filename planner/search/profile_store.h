// The profiles that the plans of a space need (block_profile.h), made when they are asked for.
//
// A search has hundreds of tensor configurations, and most of their plans are far from the best one. So a search begins
// with one profile for all microbatch sizes of a configuration, that of the largest. It bounds the smaller ones: on
// devices whose kernels are not slower per row when they have more rows, k microbatches as one take no longer than k
// times one microbatch. So a k-th of what the large one takes is a lower bound for the small one, in time and in bytes.
#ifndef WEFT_PLANNER_SEARCH_PROFILE_STORE_H_
#define WEFT_PLANNER_SEARCH_PROFILE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/search/block_profile.h"
#include "planner/search/layer_runs.h"
#include "planner/search/profile_cache.h"
#include "planner/search/search_context.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// True if kernels on these devices are never slower per row when they have more rows. Measured rates promise nothing of
// the kind, and efficiencies may fall with the work.
bool SpeedGrowsWithRows(const Device& device);

class ProfileStore {
 public:
  // `context` is borrowed.
  explicit ProfileStore(const SearchContext& context);

  // Adds a plan of the space. `split`: its backwards are split.
  void Add(const Recipe& recipe, const Plan& plan, bool split);

  // After all plans are added: makes the profile with the largest microbatch of each configuration. Where it is
  // refused, or bounds nothing, makes those of all microbatches. Returns false if `stop` ended it early; then nothing
  // else may be called.
  bool MakeLargest(const std::function<bool()>& stop);

  // Makes the profiles of these plans, which were added. Returns false if `stop` ended it early; then some are made.
  bool Make(absl::Span<const std::pair<Recipe, Plan>> plans, const std::function<bool()>& stop);

  struct Profiles {
    // Equal for plans that differ in their microbatch, their pipeline, their replicas and their schedule only.
    const std::string& configuration;
    const BlockProfile& profile;
    // BoundInputs.recomputed.
    const BlockProfile* recomputed = nullptr;
    // The profile by which layers are cut into stages: that of the largest microbatch.
    const BlockProfile& of_cut;
    // The profiles are bounds that a larger microbatch gives.
    bool is_loose = false;
  };
  // Of a plan that was added. Fails if its blocks do not compile. May run at the same time as itself.
  absl::StatusOr<Profiles> For(const Recipe& recipe, const Plan& plan) const;

  const std::vector<LayerRun>& runs() const { return runs_; }

 private:
  // All microbatch sizes of a tensor configuration.
  struct Configuration {
    struct Size {
      Recipe recipe;
      Plan plan;
      std::unique_ptr<CachedProfile> profile;
      // What the profile of the largest microbatch says of this one; null = nothing.
      std::unique_ptr<BlockProfile> bound;
    };
    // By microbatch.
    std::map<int64_t, Size> sizes;
    bool split = false;
  };
  struct Wanted {
    const std::string* key;
    Configuration* configuration;
    Configuration::Size* size;
  };
  using Place = std::pair<const std::string, Configuration>;

  void AddOne(const Recipe& recipe, const Plan& plan, bool split);
  const Place& PlaceOf(const Recipe& recipe, const Plan& plan) const;
  bool MakeAll(const std::vector<Wanted>& wanted, const std::function<bool()>& stop);

  const SearchContext& context_;
  const ProfileCache cache_;
  const std::vector<LayerRun> runs_;
  const ShortModels models_;
  const bool speed_grows_;
  bool shards_ = false;
  std::map<std::string, Configuration> configurations_;
};

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_PROFILE_STORE_H_
