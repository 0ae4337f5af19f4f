#include "planner/search/searcher.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "planner/search/device_kinds.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

// Number of plans that are simulated in one round. It does not depend on the number of threads, so neither does the
// result.
constexpr size_t kRound = 4;
// The search tightens the bounds of this many plans, those with the lowest bounds, before each round.
constexpr size_t kFront = 64;
// At most this many plans of a popular kind are simulated, to find the fastest one.
constexpr size_t kOfKind = 4;

// At most this many plans that do not fit are simulated with more memory, to find one that is faster than the best
// plan.
constexpr size_t kLarger = 4;

}  // namespace

bool Searcher::BoundIsLower(const Open& a, const Open& b) {
  return std::make_pair(a.bound.least_seconds, a.candidate) < std::make_pair(b.bound.least_seconds, b.candidate);
}

bool Searcher::EstimateIsLower(const Open& a, const Open& b) {
  return std::make_pair(a.bound.estimated_seconds, a.candidate) <
         std::make_pair(b.bound.estimated_seconds, b.candidate);
}

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
    if (!open.bound.fits) {
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
    if (!open.bound.fits && !options_.exhaustive) {
      CountUnfit(open.bound.least_bytes, open);
    } else {
      open_.push_back(std::move(open));
    }
  });
}

// Gives plans whose bounds are loose the bounds from their own profiles. Returns false if the search was stopped.
bool Searcher::MakeExact(const std::vector<Open*>& loose) {
  std::vector<std::pair<Recipe, Plan>> plans(loose.size());
  for (size_t i = 0; i < loose.size(); ++i) space_.Apply(loose[i]->candidate, &plans[i].first, &plans[i].second);
  if (!bounds_.MakeProfiles(plans, [this] { return Stops(); })) return false;
  for (size_t i = 0; i < loose.size(); ++i) {
    absl::StatusOr<PlanBound> bound = bounds_.Bound(plans[i].first, plans[i].second);
    if (bound.ok()) {
      loose[i]->bound = *std::move(bound);
    } else {
      loose[i]->refusal = bound.status();
    }
  }
  return true;
}

bool Searcher::IsImpossible(const Open& open) const {
  return !open.refusal.ok() || (!open.bound.fits && !options_.exhaustive);
}

// Takes out open plans that turned out to be refused, or not to fit, when their bounds became exact.
void Searcher::DropImpossible() {
  std::erase_if(open_, [&](const Open& open) {
    if (!IsImpossible(open)) return false;
    if (!open.refusal.ok()) {
      Refuse(open.refusal);
    } else {
      CountUnfit(open.bound.least_bytes, open);
    }
    return true;
  });
}

// Tightens the bound of a plan. If that fails, the plan keeps its bound.
void Searcher::Tighten(Open& open) const {
  open.is_tight = true;
  Recipe recipe;
  Plan plan;
  space_.Apply(open.candidate, &recipe, &plan);
  bounds_.Tighten(recipe, plan, &open.bound).IgnoreError();
}

// `gives_up`: a plan that recomputes so much that it cannot be the best one is given up.
TriedPlan Searcher::Try(const Open& open, const SearchContext& context, bool gives_up) const {
  FoundPlan found{.candidate = open.candidate, .settings = space_.SettingsOf(open.candidate)};
  space_.Apply(open.candidate, &found.recipe, &found.plan);
  const ScheduleShape& shape = *bounds_.ShapeOf(found.recipe, found.plan);
  const std::vector<int32_t>& cut = bounds_.CutOf(found.recipe, found.plan);
  if (!gives_up) return TryCandidate(context, std::move(found), shape, cut, open.bound, nullptr);
  const Recipe recipe = found.recipe;
  const Plan plan = found.plan;
  return TryCandidate(context, std::move(found), shape, cut, open.bound, [&](const std::vector<double>& layers) {
    PlanBound bound = open.bound;
    bound.recomputed_layers = layers;
    return bounds_.Tighten(recipe, plan, &bound).ok() && IsDone(bound.least_seconds);
  });
}

std::vector<TriedPlan> Searcher::TryAll(const std::vector<Open>& round, bool gives_up) const {
  std::vector<TriedPlan> tried(round.size());
  ForAll(round.size(), context_.threads, [&](size_t i) { tried[i] = Try(round[i], context_, gives_up); });
  return tried;
}

void Searcher::Add(TriedPlan tried, const Open& open) {
  if (!tried.status.ok()) {
    Refuse(tried.status);
  } else if (tried.is_slower) {
    ++result_.slower;
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

// Simulates plans of popular kinds before all others: the report needs them, and they give a good best time early.
void Searcher::TryPopularKinds() {
  std::vector<PopularPlan> popular(kinds_.size());
  std::vector<Open*> loose;
  for (Kind& kind : kinds_) {
    for (Open& open : kind.best) {
      if (open.bound.is_loose) loose.push_back(&open);
    }
  }
  const bool exact = MakeExact(loose);
  for (Kind& kind : kinds_) {
    if (!exact) break;
    std::erase_if(kind.best, [&](const Open& open) {
      if (!IsImpossible(open)) return false;
      const int64_t bytes = open.bound.least_bytes;
      if (open.refusal.ok() && (kind.unfit_bytes == 0 || bytes < kind.unfit_bytes)) kind.unfit_bytes = bytes;
      return true;
    });
    ForAll(kind.best.size(), context_.threads, [&](size_t i) { Tighten(kind.best[i]); });
    std::sort(kind.best.begin(), kind.best.end(), EstimateIsLower);
  }
  for (size_t place = 0; place < kOfKind && !Stops(); ++place) {
    std::vector<Open> round;
    std::vector<size_t> kinds;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      if (place >= kinds_[k].best.size()) continue;
      const double fastest = popular[k].iteration_seconds;
      if (fastest > 0 && kinds_[k].best[place].bound.least_seconds >= fastest) continue;
      round.push_back(kinds_[k].best[place]);
      kinds.push_back(k);
    }
    std::vector<TriedPlan> tried = TryAll(round, /*gives_up=*/false);
    for (size_t i = 0; i < round.size(); ++i) {
      std::erase_if(open_, [&](const Open& open) { return open.candidate == round[i].candidate; });
      PopularPlan& plan = popular[kinds[i]];
      Kind& kind = kinds_[kinds[i]];
      const int64_t bytes = tried[i].found.device_bytes;
      const double seconds = tried[i].fits ? tried[i].found.report.iteration_seconds() : 0;
      if (tried[i].fits && plan.iteration_seconds > 0 && plan.iteration_seconds <= seconds) {
        // Another plan of the kind is faster.
      } else if (tried[i].fits) {
        plan.settings = tried[i].found.settings;
        plan.iteration_seconds = seconds;
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

// Looks for a plan that does not fit but would be the best one with more memory. Tries plans with shorter estimates
// than the best time, smallest first, at most kLarger of them.
void Searcher::FindLarger() {
  // With several kinds of devices, one number of bytes would not say which devices need them.
  if (result_.plans.empty() || context_.kinds != nullptr) return;
  const double best = result_.plans.front().report.iteration_seconds();
  size_t tries = 0;
  for (auto& [bytes, open] : unfit_) {
    if (open.bound.is_loose && open.bound.estimated_seconds < best && !MakeExact({&open})) return;
    if (!open.refusal.ok() || open.bound.estimated_seconds >= best) continue;
    if (tries++ == kLarger || Stops()) return;
    const auto try_with = [&](int64_t allowed) {
      const Cluster larger = WithMemory(context_.cluster, allowed);
      return Try(open,
                 {.model = context_.model,
                  .cluster = larger,
                  .cost = context_.cost,
                  .network = context_.network,
                  .runtime = context_.runtime,
                  .capacity = allowed,
                  .threads = context_.threads},
                 /*gives_up=*/false);
    };
    // `least` may be a lower bound, which leaves out e.g. buffers of messages. So allow 1/16 more, or if that is too
    // little, what the plan then turns out to take.
    const int64_t least = std::max(bytes, open.bound.least_bytes);
    TriedPlan tried = try_with(least + least / 16);
    if (tried.status.ok() && !tried.fits) tried = try_with(tried.found.device_bytes);
    if (!tried.fits || tried.found.report.iteration_seconds() >= best) continue;
    result_.larger = std::move(tried.found);
    return;
  }
}

// Makes the loose ones of these bounds exact, or if there are none, tightens them. Returns false if there was nothing
// to do, or if the search was stopped. Pointers to open plans are invalid afterwards.
bool Searcher::Improve(const std::vector<Open*>& plans) {
  std::vector<Open*> loose, slack;
  for (Open* open : plans) {
    if (open->bound.is_loose) {
      loose.push_back(open);
    } else if (!open->is_tight) {
      slack.push_back(open);
    }
  }
  if (!loose.empty()) {
    if (!MakeExact(loose)) return false;
    DropImpossible();
    return true;
  }
  ForAll(slack.size(), context_.threads, [&](size_t i) { Tighten(*slack[i]); });
  return !slack.empty();
}

void Searcher::TightenFront() {
  // Improved bounds are higher, so other plans may come to the front. Repeat until all bounds there are tight.
  std::vector<Open*> front;
  do {
    const size_t count = std::min(kFront, open_.size());
    std::partial_sort(open_.begin(), open_.begin() + static_cast<int64_t>(count), open_.end(), BoundIsLower);
    front.clear();
    for (size_t i = 0; i < count && !IsDone(open_[i].bound.least_seconds); ++i) front.push_back(&open_[i]);
  } while (Improve(front));
}

// The open plans with the shortest estimates, as many as a round has, if they may be faster than the best plan.
std::vector<Searcher::Open*> Searcher::ShortestEstimates() {
  std::vector<Open*> shortest;
  const auto is_shorter = [](const Open* a, const Open* b) { return EstimateIsLower(*a, *b); };
  for (Open& open : open_) {
    if (IsDone(open.bound.least_seconds) || IsDone(open.bound.estimated_seconds)) continue;
    if (shortest.size() == kRound && !is_shorter(&open, shortest.back())) continue;
    shortest.insert(std::upper_bound(shortest.begin(), shortest.end(), &open, is_shorter), &open);
    if (shortest.size() > kRound) shortest.pop_back();
  }
  return shortest;
}

std::vector<Searcher::Open> Searcher::TakeRound() {
  // Most of a round are the plans with the shortest estimates, so that there is a good answer early. The rest are the
  // plans with the lowest bounds, which must be simulated anyway to close the gap.
  std::vector<ChoiceIndices> wanted;
  for (const Open* open : ShortestEstimates()) wanted.push_back(open->candidate);
  if (wanted.size() == kRound) wanted.pop_back();
  for (const Open& open : open_) {
    if (wanted.size() == kRound) break;
    if (std::find(wanted.begin(), wanted.end(), open.candidate) == wanted.end()) wanted.push_back(open.candidate);
  }
  std::vector<Open> round;
  for (const ChoiceIndices& candidate : wanted) {
    const auto place =
        std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.candidate == candidate; });
    round.push_back(std::move(*place));
    open_.erase(place);
  }
  return round;
}

void Searcher::SimulateInOrder() {
  while (true) {
    do {
      TightenFront();
    } while (Improve(ShortestEstimates()));
    const double open = open_.empty() ? std::numeric_limits<double>::max() : open_.front().bound.least_seconds;
    result_.least_seconds =
        result_.plans.empty() ? open : std::min(open, result_.plans.front().report.iteration_seconds());
    Report();
    if (open_.empty() || IsDone(open) || Stops()) break;
    const std::vector<Open> round = TakeRound();
    std::vector<TriedPlan> tried = TryAll(round, /*gives_up=*/true);
    for (size_t i = 0; i < round.size(); ++i) Add(std::move(tried[i]), round[i]);
  }
}

// Compiles the best plans as weft compile does, and removes those that then do not fit. Returns false if it removed
// any.
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
  // If the user's plan is refused, the user need not wait for the search to know.
  FoundPlan own{.recipe = recipe_};
  TriedPlan start;
  if (options_.from) {
    own.recipe.set_microbatch_sequences(options_.from->microbatch_sequences);
    own.plan = options_.from->plan;
    start = TryAsItIs(context_, own);
    if (!start.status.ok()) {
      return absl::Status(start.status.code(), absl::StrCat("--from: ", start.status.message()));
    }
  }
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
  // All simulated plans are kept until here: if one of the best does not fit as weft compile makes it, the next plan
  // takes its place.
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
    result_.changes = FindChangesFrom(context_, space_, own.recipe, own.plan, start, result_.plans.front(),
                                      [this] { return Stops(); });
  }
  return std::move(result_);
}

}  // namespace weft::planner
