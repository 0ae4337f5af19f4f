// The profiles of a search on every kind of device: a ProfileStore for each.
#ifndef WEFT_PLANNER_SEARCH_KIND_STORES_H_
#define WEFT_PLANNER_SEARCH_KIND_STORES_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/search/layer_runs.h"
#include "planner/search/profile_store.h"
#include "planner/search/search_context.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// The profiles of a plan on each kind of device, at least one.
using ProfilesOfKinds = std::vector<ProfileStore::Profiles>;

// Its functions are those of ProfileStore, for the stores of all kinds.
class KindStores {
 public:
  // `context` is borrowed. Without context.kinds there is one store, of cluster.device.
  explicit KindStores(const SearchContext& context);

  void Add(const Recipe& recipe, const Plan& plan, bool split);
  bool MakeLargest(const std::function<bool()>& stop);
  bool Make(absl::Span<const std::pair<Recipe, Plan>> plans, const std::function<bool()>& stop);
  absl::StatusOr<ProfilesOfKinds> For(const Recipe& recipe, const Plan& plan) const;
  const std::vector<LayerRun>& runs() const { return stores_.front()->runs(); }

 private:
  std::vector<std::unique_ptr<SearchContext>> contexts_;
  std::vector<std::unique_ptr<ProfileStore>> stores_;
};

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_KIND_STORES_H_
