#include "planner/search/kind_stores.h"

#include "proto/util/status.h"

namespace weft::planner {

KindStores::KindStores(const SearchContext& context) {
  if (context.kinds == nullptr) {
    stores_.push_back(std::make_unique<ProfileStore>(context));
    return;
  }
  for (size_t kind = 0; kind < context.kinds->kinds().size(); ++kind) {
    contexts_.push_back(
        std::make_unique<SearchContext>(SearchContext{.model = context.model,
                                                      .cluster = context.kinds->ClusterOf(kind),
                                                      .cost = context.cost,
                                                      .network = context.network,
                                                      .runtime = context.runtime,
                                                      .capacity = context.kinds->kinds()[kind].usable_bytes,
                                                      .threads = context.threads,
                                                      .cache = context.cache}));
    stores_.push_back(std::make_unique<ProfileStore>(*contexts_.back()));
  }
}

void KindStores::Add(const Recipe& recipe, const Plan& plan, bool split) {
  for (const auto& store : stores_) store->Add(recipe, plan, split);
}

bool KindStores::MakeLargest(const std::function<bool()>& stop) {
  for (const auto& store : stores_) {
    if (!store->MakeLargest(stop)) return false;
  }
  return true;
}

bool KindStores::Make(absl::Span<const std::pair<Recipe, Plan>> plans, const std::function<bool()>& stop) {
  for (const auto& store : stores_) {
    if (!store->Make(plans, stop)) return false;
  }
  return true;
}

absl::StatusOr<ProfilesOfKinds> KindStores::For(const Recipe& recipe, const Plan& plan) const {
  ProfilesOfKinds found;
  for (const auto& store : stores_) {
    WEFT_ASSIGN_OR_RETURN(const ProfileStore::Profiles profiles, store->For(recipe, plan));
    found.push_back(profiles);
  }
  return found;
}

}  // namespace weft::planner
