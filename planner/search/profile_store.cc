#include "planner/search/profile_store.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "planner/search/plan_bound.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

// The plan with all layers recomputed, if the memory decides how many are; else nothing.
std::optional<Plan> AllRecomputed(const Plan& plan) {
  if (plan.recompute().mode() != Recompute::FIT) return std::nullopt;
  Plan recomputed = plan;
  recomputed.mutable_recompute()->set_mode(Recompute::FULL);
  return recomputed;
}

// The question that a profile answers, apart from the context of the search.
std::string CacheKey(const Recipe& recipe, const std::string& configuration, bool split, bool sharded) {
  Recipe other = recipe;
  // Profiles have one microbatch.
  other.clear_global_batch_sequences();
  return absl::StrCat(configuration, split ? " split" : "", sharded ? " sharded " : " ", other.SerializeAsString());
}

bool NeverFalls(const google::protobuf::RepeatedPtrField<Efficiency>& rows) {
  for (int i = 1; i < rows.size(); ++i) {
    if (rows[i].fraction() < rows[i - 1].fraction()) return false;
  }
  return true;
}

}  // namespace

bool SpeedGrowsWithRows(const Device& device) {
  return device.kernel_rates().empty() && NeverFalls(device.matmul_efficiency()) &&
         NeverFalls(device.memory_efficiency());
}

ProfileStore::ProfileStore(const SearchContext& context)
    : context_(context),
      cache_(context.cache, context),
      runs_(RunsOfLayers(context.model)),
      models_(ShortModelsOf(context.model, runs_)),
      speed_grows_(SpeedGrowsWithRows(context.cluster.device())) {}

void ProfileStore::AddOne(const Recipe& recipe, const Plan& plan, bool split) {
  Configuration& configuration = configurations_[ConfigurationKey(plan)];
  configuration.split |= split;
  const auto [size, is_new] = configuration.sizes.try_emplace(recipe.microbatch_sequences());
  if (!is_new) return;
  size->second.recipe = recipe;
  size->second.plan = plan;
}

void ProfileStore::Add(const Recipe& recipe, const Plan& plan, bool split) {
  shards_ |= plan.zero().stage() >= 2 && ReplicasThatShare(plan) > 1;
  AddOne(recipe, plan, split);
  if (const std::optional<Plan> recomputed = AllRecomputed(plan)) AddOne(recipe, *recomputed, split);
}

const ProfileStore::Place& ProfileStore::PlaceOf(const Recipe& recipe, const Plan& plan) const {
  return *configurations_.find(ConfigurationKey(plan));
}

bool ProfileStore::MakeAll(const std::vector<Wanted>& wanted, const std::function<bool()>& stop) {
  return ForAll(
      wanted.size(), context_.threads,
      [&](size_t i) {
        const auto& [key, configuration, size] = wanted[i];
        const std::string cache_key = CacheKey(size->recipe, *key, configuration->split, shards_);
        if (const CachedProfile* known = cache_.Find(cache_key)) {
          size->profile = std::make_unique<CachedProfile>(*known);
          return;
        }
        auto made = std::make_unique<CachedProfile>(ProfileBlocks({.models = models_,
                                                                   .runs = runs_,
                                                                   .recipe = size->recipe,
                                                                   .plan = size->plan,
                                                                   .cluster = context_.cluster,
                                                                   .cost = context_.cost,
                                                                   .network = context_.network,
                                                                   .runtime = context_.runtime,
                                                                   .split_backward = configuration->split,
                                                                   .sharded_gradients = shards_}));
        cache_.Store(cache_key, *made);
        size->profile = std::move(made);
      },
      stop);
}

bool ProfileStore::MakeLargest(const std::function<bool()>& stop) {
  std::vector<Wanted> largest;
  for (auto& [key, configuration] : configurations_) {
    largest.push_back({&key, &configuration, &configuration.sizes.rbegin()->second});
  }
  if (!MakeAll(largest, stop)) return false;
  std::vector<Wanted> others;
  for (auto& [key, configuration] : configurations_) {
    const int64_t most = configuration.sizes.rbegin()->first;
    const CachedProfile& profile = *configuration.sizes.rbegin()->second.profile;
    for (auto& [microbatch, size] : configuration.sizes) {
      if (microbatch == most) continue;
      const bool has_all_forms = profile.ok() && profile->halves.ok() && profile->sharded.ok();
      if (has_all_forms && speed_grows_ && most % microbatch == 0) {
        size.bound = std::make_unique<BlockProfile>(PartOf(*profile, most / microbatch));
      } else {
        others.push_back({&key, &configuration, &size});
      }
    }
  }
  return MakeAll(others, stop);
}

bool ProfileStore::Make(absl::Span<const std::pair<Recipe, Plan>> plans, const std::function<bool()>& stop) {
  // By key, so that each is made once.
  std::map<std::pair<std::string, int64_t>, Wanted> wanted;
  const auto want = [&](const Recipe& recipe, const Plan& plan) {
    auto& [key, configuration] = *configurations_.find(ConfigurationKey(plan));
    const int64_t microbatch = recipe.microbatch_sequences();
    Configuration::Size& size = configuration.sizes.at(microbatch);
    if (size.profile == nullptr) wanted.try_emplace({key, microbatch}, Wanted{&key, &configuration, &size});
  };
  for (const auto& [recipe, plan] : plans) {
    want(recipe, plan);
    if (const std::optional<Plan> recomputed = AllRecomputed(plan)) want(recipe, *recomputed);
  }
  std::vector<Wanted> list;
  for (const auto& [key, one] : wanted) list.push_back(one);
  return MakeAll(list, stop);
}

absl::StatusOr<ProfileStore::Profiles> ProfileStore::For(const Recipe& recipe, const Plan& plan) const {
  const auto& [key, configuration] = PlaceOf(recipe, plan);
  const int64_t microbatch = recipe.microbatch_sequences();
  const Configuration::Size& size = configuration.sizes.at(microbatch);
  const Configuration::Size* recomputed = nullptr;
  if (const std::optional<Plan> all = AllRecomputed(plan)) {
    recomputed = &PlaceOf(recipe, *all).second.sizes.at(microbatch);
  }
  const auto is_loose = [](const Configuration::Size& one) { return one.profile == nullptr; };
  const bool loose = is_loose(size) || (recomputed != nullptr && is_loose(*recomputed));
  const auto profile_of = [](const Configuration::Size& one) -> absl::StatusOr<const BlockProfile*> {
    if (one.profile == nullptr) return one.bound.get();
    WEFT_RETURN_IF_ERROR(one.profile->status());
    return &**one.profile;
  };
  WEFT_ASSIGN_OR_RETURN(const BlockProfile* profile, profile_of(size));
  const BlockProfile* all = nullptr;
  if (recomputed != nullptr) {
    WEFT_ASSIGN_OR_RETURN(all, profile_of(*recomputed));
  }
  const CachedProfile& largest = *configuration.sizes.rbegin()->second.profile;
  return Profiles{key, *profile, all, largest.ok() ? *largest : *profile, loose};
}

}  // namespace weft::planner
