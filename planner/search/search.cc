#include "planner/search/search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/evaluate.h"
#include "planner/search/candidate_bounds.h"
#include "planner/search/popular_choices.h"
#include "planner/search/search_context.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/validate/validate.h"

namespace weft::planner {
namespace {

// Plans that are simulated at once, whatever the number of threads, so that the result does not depend on it.
constexpr size_t kRound = 4;
// Plans with the lowest bounds whose bounds are tight, and from which a round is taken.
constexpr size_t kFront = 64;
// Plans of a popular kind that may be simulated, until one fits.
constexpr size_t kOfKind = 4;

// A plan of the space that may be simulated.
struct Open {
  ChoiceIndices candidate;
  PlanBound bound;
  // Tighten was tried.
  bool is_tight = false;
};

bool BoundIsLower(const Open& a, const Open& b) {
  return std::make_pair(a.bound.least_seconds, a.candidate) < std::make_pair(b.bound.least_seconds, b.candidate);
}

bool EstimateIsLower(const Open& a, const Open& b) {
  return std::make_pair(a.bound.estimated_seconds, a.candidate) <
         std::make_pair(b.bound.estimated_seconds, b.candidate);
}

// Plans that take more than the memory and are simulated nevertheless, until one is faster than the best plan.
constexpr size_t kLarger = 4;

// The plans of a popular kind.
struct Kind {
  int64_t plans = 0;
  // Those with the shortest estimates, shortest first.
  std::vector<Open> best = {};
  // Of the smallest plan that does not fit; 0 = there is none.
  int64_t unfit_bytes = 0;
};

class Searcher {
 public:
  Searcher(const SearchContext& context, const SearchOptions& options, const Recipe& recipe, const Space& space)
      : context_(context), options_(options), recipe_(recipe), space_(space), bounds_(context, space) {}

  absl::StatusOr<SearchResult> Run();

 private:
  void BoundAll();
  void AddToKind(const Open& open, const Plan& plan);
  void Tighten(Open& open) const;
  TriedPlan Try(const Open& open, const SearchContext& context) const;
  std::vector<TriedPlan> TryAll(const std::vector<Open>& round) const;
  void TryPopularKinds();
  void TightenFront();
  std::vector<Open> TakeRound();
  void SimulateInOrder();
  bool FinishPlans();
  bool Stops();
  void Add(TriedPlan tried, const Open& open);
  void Refuse(const absl::Status& status);
  void CountUnfit(int64_t bytes, const Open& open);
  void FindLarger();
  bool IsDone(double least) const;
  void Report() const;

  const SearchContext& context_;
  const SearchOptions& options_;
  // Resolved.
  const Recipe& recipe_;
  const Space& space_;
  CandidateBounds bounds_;
  std::vector<Open> open_;
  // Plans that do not fit, smallest first; each has a shorter estimate than all before it.
  std::vector<std::pair<int64_t, Open>> unfit_;
  std::vector<Kind> kinds_ = std::vector<Kind>(PopularChoices().size());
  SearchResult result_;
};

void Searcher::Refuse(const absl::Status& status) {
  ++result_.refused;
  if (result_.refusal.empty()) result_.refusal = std::string(status.message());
}

void Searcher::CountUnfit(int64_t bytes, const Open& open) {
  if (result_.unfit++ == 0 || bytes < result_.least_unfit_bytes) result_.least_unfit_bytes = bytes;
  const auto is_smaller = [](const std::pair<int64_t, Open>& a, int64_t than) { return a.first < than; };
  auto place = std::lower_bound(unfit_.begin(), unfit_.end(), bytes, is_smaller);
  const double estimate = open.bound.estimated_seconds;
  if (place != unfit_.begin() && std::prev(place)->second.bound.estimated_seconds <= estimate) return;
  if (place != unfit_.end() && place->first == bytes && place->second.bound.estimated_seconds <= estimate) return;
  const auto end = std::find_if(place, unfit_.end(), [&](const std::pair<int64_t, Open>& larger) {
    return larger.second.bound.estimated_seconds < estimate;
  });
  place = unfit_.erase(place, end);
  unfit_.insert(place, {bytes, open});
}

void Searcher::AddToKind(const Open& open, const Plan& plan) {
  const int64_t per_node = context_.cluster.devices_per_node();
  for (size_t k = 0; k < kinds_.size(); ++k) {
    if (!PopularChoices()[k].includes(plan, per_node)) continue;
    Kind& kind = kinds_[k];
    ++kind.plans;
    if (open.bound.least_bytes > context_.capacity) {
      kind.unfit_bytes =
          kind.unfit_bytes == 0 ? open.bound.least_bytes : std::min(kind.unfit_bytes, open.bound.least_bytes);
      continue;
    }
    kind.best.insert(std::upper_bound(kind.best.begin(), kind.best.end(), open, EstimateIsLower), open);
    if (kind.best.size() > kOfKind) kind.best.pop_back();
  }
}

void Searcher::BoundAll() {
  space_.ForEach([&](const ChoiceIndices& candidate, const Recipe& recipe, const Plan& plan) {
    absl::StatusOr<PlanBound> bound = bounds_.Bound(recipe, plan);
    if (!bound.ok()) {
      Refuse(bound.status());
      return;
    }
    Open open{candidate, *std::move(bound)};
    AddToKind(open, plan);
    if (open.bound.least_bytes > context_.capacity && !options_.exhaustive) {
      CountUnfit(open.bound.least_bytes, open);
    } else {
      open_.push_back(std::move(open));
    }
  });
}

// If the bound cannot be tightened, the plan keeps the one that it has.
void Searcher::Tighten(Open& open) const {
  open.is_tight = true;
  Recipe recipe;
  Plan plan;
  space_.Apply(open.candidate, &recipe, &plan);
  bounds_.Tighten(recipe, plan, &open.bound).IgnoreError();
}

TriedPlan Searcher::Try(const Open& open, const SearchContext& context) const {
  FoundPlan found{.candidate = open.candidate, .settings = space_.SettingsOf(open.candidate)};
  space_.Apply(open.candidate, &found.recipe, &found.plan);
  const ScheduleShape& shape = *bounds_.ShapeOf(found.recipe, found.plan);
  const std::vector<int32_t>& cut = bounds_.CutOf(found.recipe, found.plan);
  return TryCandidate(context, std::move(found), shape, cut, open.bound);
}

std::vector<TriedPlan> Searcher::TryAll(const std::vector<Open>& round) const {
  std::vector<TriedPlan> tried(round.size());
  ForAll(round.size(), context_.threads, [&](size_t i) { tried[i] = Try(round[i], context_); });
  return tried;
}

void Searcher::Add(TriedPlan tried, const Open& open) {
  if (!tried.status.ok()) {
    Refuse(tried.status);
  } else if (!tried.fits) {
    CountUnfit(tried.found.device_bytes, open);
  } else {
    ++result_.simulated;
    const auto faster = [](const FoundPlan& a, const FoundPlan& b) {
      return std::make_pair(a.report.iteration_seconds(), a.candidate) <
             std::make_pair(b.report.iteration_seconds(), b.candidate);
    };
    std::vector<FoundPlan>& plans = result_.plans;
    plans.insert(std::upper_bound(plans.begin(), plans.end(), tried.found, faster), std::move(tried.found));
  }
}

bool Searcher::IsDone(double least) const {
  if (options_.exhaustive || result_.plans.empty()) return false;
  return least >= result_.plans.front().report.iteration_seconds() * (1 - options_.gap);
}

bool Searcher::Stops() {
  result_.stopped |= options_.stop != nullptr && options_.stop();
  return result_.stopped;
}

void Searcher::Report() const {
  if (options_.on_progress == nullptr) return;
  SearchProgress progress{.plans = result_.space, .simulated = result_.simulated};
  if (!result_.plans.empty()) {
    progress.best_seconds = result_.plans.front().report.iteration_seconds();
    progress.gap = std::max(0.0, 1 - result_.least_seconds / progress.best_seconds);
  }
  options_.on_progress(progress);
}

// The popular kinds come first: they are needed for the report, and give a good best time early.
void Searcher::TryPopularKinds() {
  std::vector<PopularPlan> popular(kinds_.size());
  for (Kind& kind : kinds_) {
    ForAll(kind.best.size(), context_.threads, [&](size_t i) { Tighten(kind.best[i]); });
    std::sort(kind.best.begin(), kind.best.end(), EstimateIsLower);
  }
  for (size_t place = 0; place < kOfKind && !Stops(); ++place) {
    std::vector<Open> round;
    std::vector<size_t> kinds;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      if (popular[k].iteration_seconds > 0 || place >= kinds_[k].best.size()) continue;
      round.push_back(kinds_[k].best[place]);
      kinds.push_back(k);
    }
    std::vector<TriedPlan> tried = TryAll(round);
    for (size_t i = 0; i < round.size(); ++i) {
      std::erase_if(open_, [&](const Open& open) { return open.candidate == round[i].candidate; });
      PopularPlan& plan = popular[kinds[i]];
      Kind& kind = kinds_[kinds[i]];
      const int64_t bytes = tried[i].found.device_bytes;
      if (tried[i].fits) {
        plan.settings = tried[i].found.settings;
        plan.iteration_seconds = tried[i].found.report.iteration_seconds();
        plan.device_bytes = bytes;
      } else if (tried[i].status.ok() && (kind.unfit_bytes == 0 || bytes < kind.unfit_bytes)) {
        kind.unfit_bytes = bytes;
      }
      Add(std::move(tried[i]), round[i]);
    }
  }
  for (size_t k = 0; k < kinds_.size(); ++k) {
    if (kinds_[k].plans == 0) continue;
    PopularPlan& plan = popular[k];
    plan.kind = std::string(PopularChoices()[k].name);
    if (plan.iteration_seconds == 0) plan.device_bytes = kinds_[k].unfit_bytes;
    if (result_.stopped && !kinds_[k].best.empty() && plan.device_bytes == 0) {
      plan.device_bytes = kinds_[k].best.front().bound.least_bytes;
    }
    result_.popular.push_back(std::move(plan));
  }
}

// Looks for the least memory with which another plan would be the best one.
void Searcher::FindLarger() {
  if (result_.plans.empty()) return;
  const double best = result_.plans.front().report.iteration_seconds();
  size_t tries = 0;
  for (const auto& [bytes, open] : unfit_) {
    if (open.bound.estimated_seconds >= best) continue;
    if (tries++ == kLarger || Stops()) return;
    // What a bound leaves out, e.g. buffers of messages, takes some more.
    const int64_t allowed = bytes + bytes / 16;
    Cluster larger = context_.cluster;
    larger.mutable_device()->set_memory_bytes(allowed + larger.device().reserved_bytes());
    TriedPlan tried = Try(open, {.model = context_.model,
                                 .cluster = larger,
                                 .cost = context_.cost,
                                 .network = context_.network,
                                 .runtime = context_.runtime,
                                 .capacity = allowed,
                                 .threads = context_.threads});
    if (!tried.fits || tried.found.report.iteration_seconds() >= best) continue;
    result_.larger = std::move(tried.found);
    return;
  }
}

void Searcher::TightenFront() {
  // Tightening moves plans back, so others come to the front.
  while (true) {
    const size_t front = std::min(kFront, open_.size());
    std::partial_sort(open_.begin(), open_.begin() + static_cast<int64_t>(front), open_.end(), BoundIsLower);
    std::vector<Open*> loose;
    for (size_t i = 0; i < front && !IsDone(open_[i].bound.least_seconds); ++i) {
      if (!open_[i].is_tight) loose.push_back(&open_[i]);
    }
    if (loose.empty()) return;
    ForAll(loose.size(), context_.threads, [&](size_t i) { Tighten(*loose[i]); });
  }
}

std::vector<Open> Searcher::TakeRound() {
  // Half of a round has the lowest bounds: to close the gap, these must be simulated anyway. The other half has the
  // shortest estimates, so that there is a good answer early.
  std::vector<Open> round;
  const auto take = [&](size_t i) {
    round.push_back(std::move(open_[i]));
    open_.erase(open_.begin() + static_cast<int64_t>(i));
  };
  while (round.size() < kRound / 2 && !open_.empty()) take(0);
  while (round.size() < kRound && !open_.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < std::min(kFront, open_.size()); ++i) {
      if (open_[i].bound.estimated_seconds < open_[best].bound.estimated_seconds) best = i;
    }
    take(best);
  }
  return round;
}

void Searcher::SimulateInOrder() {
  while (true) {
    TightenFront();
    const double open = open_.empty() ? std::numeric_limits<double>::max() : open_.front().bound.least_seconds;
    result_.least_seconds =
        result_.plans.empty() ? open : std::min(open, result_.plans.front().report.iteration_seconds());
    Report();
    if (open_.empty() || IsDone(open) || Stops()) break;
    const std::vector<Open> round = TakeRound();
    std::vector<TriedPlan> tried = TryAll(round);
    for (size_t i = 0; i < round.size(); ++i) Add(std::move(tried[i]), round[i]);
  }
}

// Compiles the plans of the result as weft compile does. Returns false if some do not fit then, and are taken out.
bool Searcher::FinishPlans() {
  std::vector<FoundPlan>& plans = result_.plans;
  const size_t count = std::min(plans.size(), static_cast<size_t>(options_.wanted));
  std::vector<TriedPlan> tried(count);
  ForAll(count, context_.threads, [&](size_t i) {
    if (!plans[i].is_finished) tried[i] = TryAsItIs(context_, plans[i]);
  });
  bool all_fit = true;
  for (size_t i = count; i-- > 0;) {
    if (plans[i].is_finished) continue;
    plans[i].is_finished = true;
    if (tried[i].fits) {
      plans[i].device_bytes = tried[i].found.device_bytes;
      plans[i].report = std::move(tried[i].found.report);
      continue;
    }
    all_fit = false;
    --result_.simulated;
    if (tried[i].status.ok()) {
      ++result_.unfit;
    } else {
      Refuse(tried[i].status);
    }
    plans.erase(plans.begin() + static_cast<int64_t>(i));
  }
  return all_fit;
}

absl::StatusOr<SearchResult> Searcher::Run() {
  const bool prepared = bounds_.Prepare(options_.stop);
  result_.space = bounds_.plans();
  result_.dimensions = space_.dimensions();
  if (result_.space == 0) {
    return absl::InvalidArgumentError(
        "the space has no plan: no number of replicas and microbatch size divide recipe.global_batch_sequences");
  }
  if (!prepared) {
    result_.stopped = true;
    result_.open = result_.space;
    return std::move(result_);
  }
  BoundAll();
  if (open_.empty() && result_.unfit == 0) return absl::InvalidArgumentError(result_.refusal);
  TryPopularKinds();
  do {
    SimulateInOrder();
  } while (!FinishPlans());
  // Until here, all plans were kept: others follow if one of the best does not fit as weft compile makes it.
  if (!options_.exhaustive && static_cast<int>(result_.plans.size()) > options_.wanted) {
    result_.plans.resize(options_.wanted);
  }
  for (const Open& open : open_) ++(IsDone(open.bound.least_seconds) ? result_.slower : result_.open);
  FindLarger();
  if (!result_.plans.empty()) {
    result_.gap = std::max(0.0, 1 - result_.least_seconds / result_.plans.front().report.iteration_seconds());
  }
  if (options_.sensitivities && !Stops()) {
    result_.sensitivities = FindSensitivities(context_, result_.plans, [this] { return Stops(); });
  }
  if (options_.from && !result_.plans.empty()) {
    Recipe recipe = recipe_;
    recipe.set_microbatch_sequences(options_.from->microbatch_sequences);
    WEFT_ASSIGN_OR_RETURN(result_.changes, FindChangesFrom(context_, space_, recipe, options_.from->plan,
                                                           result_.plans.front(), [this] { return Stops(); }));
  }
  return std::move(result_);
}

// Profiles have a few layers of a model, so they cannot follow modes that choose layers by their number.
absl::Status CheckRecompute(const Recompute& recompute) {
  switch (recompute.mode()) {
    case Recompute::NONE:
    case Recompute::FULL:
    case Recompute::SELECTIVE:
    case Recompute::FIT:
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat("plan.recompute.mode = ", Recompute::Mode_Name(recompute.mode()),
                                                     " is not searched; allowed: NONE, FULL, SELECTIVE, FIT; leave it "
                                                     "out to let the search choose"));
  }
}

}  // namespace

absl::StatusOr<SearchResult> Search(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options) {
  WEFT_RETURN_IF_ERROR(Validate(cluster));
  if (cluster.other_devices_size() > 0) {
    return absl::UnimplementedError(
        "cluster.other_devices: weft plan searches clusters of one kind of device; leave out the other devices");
  }
  Cluster limited = cluster;
  if (options.memory_bytes > 0 && options.memory_bytes < UsableBytes(cluster.device())) {
    limited.mutable_device()->set_memory_bytes(options.memory_bytes + cluster.device().reserved_bytes());
  }
  if (options.space.plan.schedule().scaling() != PlanSchedule::CONCATENATION) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.schedule.scaling = ", PlanSchedule::Scaling_Name(options.space.plan.schedule().scaling()),
                     " is not searched; allowed: CONCATENATION"));
  }
  if (options.from) {
    const int64_t devices =
        options.space.devices > 0 ? options.space.devices : cluster.nodes() * cluster.devices_per_node();
    if (const int64_t ranks = MeshRanks(options.from->plan.mesh()); ranks != devices) {
      return absl::InvalidArgumentError(absl::StrCat("--from: the plan is for ", ranks, " devices; the search is for ",
                                                     devices, "; set the number of replicas (dp) or --gpus=", ranks));
    }
  }
  SpaceOptions resolved = options.space;
  WEFT_RETURN_IF_ERROR(CheckRecompute(resolved.plan.recompute()));
  WEFT_RETURN_IF_ERROR(ResolveGiven(cluster.device(), &resolved.recipe, &resolved.plan));
  WEFT_ASSIGN_OR_RETURN(const Space space, Space::Make(resolved, cluster));
  const SearchContext context = {.model = model,
                                 .cluster = limited,
                                 .cost = options.cost,
                                 .network = options.network,
                                 .runtime = options.runtime,
                                 .capacity = UsableBytes(limited.device()),
                                 .threads = options.threads,
                                 .cache = options.cache};
  return Searcher(context, options, resolved.recipe, space).Run();
}

}  // namespace weft::planner
