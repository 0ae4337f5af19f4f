#include "planner/remedies.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/io/set_field.h"
#include "proto/util/mesh.h"
#include "proto/util/units_text.h"

namespace weft::planner {
namespace {

// The bucket size that plan.offload.bucket_elements = 0 stands for.
constexpr int64_t kDefaultBucketElements = int64_t{1} << 24;

// A recipe and a plan after some changes. `change` holds the flags that make these changes; empty = unchanged.
struct Variant {
  Recipe recipe;
  Plan plan;
  std::string change;
};
using Change = std::function<std::optional<Variant>(Variant variant)>;

// Applies a setting written as on the command line. Returns nothing if the setting cannot be applied.
std::optional<Variant> With(Variant variant, absl::string_view setting) {
  if (!ApplySetting(setting, &variant.recipe, &variant.plan).ok()) return std::nullopt;
  absl::StrAppend(&variant.change, variant.change.empty() ? "--set " : " --set ", setting);
  return variant;
}

// Sets the mode of recompute. The flag changes no other field, so a plan whose present mode uses further fields is left
// unchanged.
Change RecomputeMode(Recompute::Mode mode) {
  return [mode](Variant variant) -> std::optional<Variant> {
    const Recompute::Mode now = variant.plan.recompute().mode();
    const bool alone = now == Recompute::NONE || now == Recompute::SELECTIVE || now == Recompute::FIT;
    if (!alone || now == mode) return std::nullopt;
    return With(std::move(variant), absl::StrCat("recompute.mode=", Recompute::Mode_Name(mode)));
  };
}

// Changes the schedule to 1F1B, which has fewer microbatches in flight.
std::optional<Variant> OneForwardOneBackward(Variant variant) {
  const PlanSchedule& schedule = variant.plan.schedule();
  PlanSchedule bare;
  bare.set_name(schedule.name());
  if (schedule.SerializeAsString() != bare.SerializeAsString()) return std::nullopt;
  if (schedule.name() == "1f1b" || schedule.name().empty()) return std::nullopt;
  if (variant.plan.partition().layers_per_stage_size() > 0) return std::nullopt;
  return With(std::move(variant), "schedule=1f1b");
}

// Makes microbatches 1/`part` as large, if `part` divides their sequences.
Change SmallerMicrobatches(int64_t part) {
  return [part](Variant variant) -> std::optional<Variant> {
    const int64_t now = std::max<int64_t>(1, variant.recipe.microbatch_sequences());
    if (now < part || now % part != 0) return std::nullopt;
    return With(std::move(variant), absl::StrCat("mbs=", now / part));
  };
}

Change ZeroStage(int32_t stage) {
  return [stage](Variant variant) -> std::optional<Variant> {
    if (AxisSize(variant.plan.mesh(), "data") < 2 || variant.plan.zero().stage() >= stage) return std::nullopt;
    return With(std::move(variant), absl::StrCat("zero.stage=", stage));
  };
}

// Keeps gathered parameters only as far as memory allows.
std::optional<Variant> KeepWhatFits(Variant variant) {
  const Zero::Reshard now = variant.plan.zero().reshard();
  if (now != Zero::NEVER && now != Zero::AFTER_BACKWARD) return std::nullopt;
  return With(std::move(variant), "zero.reshard=BY_BENEFIT");
}

// Moves master weights and moments to host memory.
Change OffloadStates(const Cluster& cluster) {
  return [&cluster](Variant variant) -> std::optional<Variant> {
    if (variant.plan.offload().optimizer() || variant.plan.post_validation() ||
        !(cluster.host().bytes_per_second() > 0)) {
      return std::nullopt;
    }
    variant.plan.mutable_offload()->set_optimizer(true);
    return With(std::move(variant), "offload.optimizer=true");
  };
}

// Keeps the optimizer's states on the device, to need less host memory.
std::optional<Variant> KeepStates(Variant variant) {
  const Offload offload = variant.plan.offload();
  if (!offload.optimizer()) return std::nullopt;
  std::optional<Variant> with = With(std::move(variant), "offload.optimizer=false");
  // The compiler refuses these settings without offload.optimizer.
  if (with && offload.bucket_elements() != 0) with = With(*std::move(with), "offload.bucket_elements=default");
  if (with && offload.buckets_per_reduce() != 0) with = With(*std::move(with), "offload.buckets_per_reduce=default");
  return with;
}

std::optional<Variant> KeepActivations(Variant variant) {
  if (variant.plan.offload().activation_layers() == 0) return std::nullopt;
  return With(std::move(variant), "offload.activation_layers=0");
}

std::optional<Variant> KeepAll(Variant variant) {
  std::optional<Variant> with = KeepStates(std::move(variant));
  return with ? KeepActivations(*std::move(with)) : std::nullopt;
}

// Makes offload buckets smaller, so that fewer states are on the device at a time. The new bucket has 1/`part` of the
// elements of the present bucket, or of a rank's elements if these are fewer. The elements of a rank are the model's
// parameters divided by the ranks of a replica.
Change SmallerBuckets(int64_t parameters, int64_t part) {
  return [parameters, part](Variant variant) -> std::optional<Variant> {
    const Mesh& mesh = variant.plan.mesh();
    if (!variant.plan.offload().optimizer()) return std::nullopt;
    const int64_t ranks = std::max<int64_t>(1, MeshRanks(mesh) / AxisSize(mesh, "data"));
    const int64_t given = variant.plan.offload().bucket_elements();
    const int64_t elements = std::min(parameters / ranks, given > 0 ? given : kDefaultBucketElements) / part;
    if (elements < 1) return std::nullopt;
    return With(std::move(variant), absl::StrCat("offload.bucket_elements=", elements));
  };
}

// Multiplies the ranks of a replica on `axis` by `factor`. The ranks come from other replicas or, if `factor` does not
// divide the number of replicas, from unused devices of the cluster.
Change MoreRanks(std::string axis, int64_t factor, const Cluster& cluster, int layers) {
  return [axis, factor, &cluster, layers](Variant variant) -> std::optional<Variant> {
    const Mesh& mesh = variant.plan.mesh();
    const int64_t now = AxisSize(mesh, axis), replicas = AxisSize(mesh, "data");
    if (axis == "pipe" && (now * factor > layers || variant.plan.partition().layers_per_stage_size() > 0)) {
      return std::nullopt;
    }
    // The setting tp would remove the axes y and z, so it is used only if there are none.
    const bool alone = AxisSize(mesh, "y") == 1 && AxisSize(mesh, "z") == 1;
    const std::string more = absl::StrCat(axis != "x" ? "pp" : alone ? "tp" : "x", "=", now * factor);
    if (replicas % factor != 0) {
      const int64_t devices = int64_t{cluster.nodes()} * cluster.devices_per_node();
      if (devices < factor || MeshRanks(mesh) > devices / factor) return std::nullopt;
      return With(std::move(variant), more);
    }
    std::optional<Variant> with = With(std::move(variant), more);
    return with ? With(*std::move(with), absl::StrCat("dp=", replicas / factor)) : std::nullopt;
  };
}

// Changes of one kind, from the weakest to the strongest.
using Ladder = std::vector<Change>;

// Makes one change and then another, which may be possible only after the first.
Change Both(Change first, Change second) {
  return [first = std::move(first), second = std::move(second)](Variant variant) -> std::optional<Variant> {
    std::optional<Variant> with = first(std::move(variant));
    return with ? second(*std::move(with)) : std::nullopt;
  };
}

// Changes to all microbatch sizes that divide the present one, larger sizes first.
Ladder Microbatches(const Recipe& recipe) {
  const int64_t now = std::max<int64_t>(1, recipe.microbatch_sequences());
  std::set<int64_t> parts;
  for (int64_t part = 1; part <= now / part; ++part) {
    if (now % part == 0) parts.insert({part, now / part});
  }
  Ladder ladder;
  for (const int64_t part : parts) {
    if (part > 1) ladder.push_back(SmallerMicrobatches(part));
  }
  return ladder;
}

// The kinds of changes that may be combined. Kinds that cost more time come first, and the search drops these first.
enum LadderIndex { kPipe, kTensor, kOffload, kRecomputeAll, kZero, kMicrobatch, kSchedule, kReshard, kLadders };

std::vector<Ladder> AllLadders(const Recipe& recipe, const Plan& plan, const Cluster& cluster, int layers,
                               int64_t parameters, bool host) {
  std::vector<Ladder> ladders(kLadders);
  for (int64_t factor : {2, 4, 8}) {
    ladders[kPipe].push_back(MoreRanks("pipe", factor, cluster, layers));
    ladders[kTensor].push_back(MoreRanks("x", factor, cluster, layers));
  }
  if (host) {
    ladders[kOffload] = {KeepActivations, KeepStates, KeepAll};
  } else {
    const Change offload = OffloadStates(cluster), quarter = SmallerBuckets(parameters, 4),
                 sixteenth = SmallerBuckets(parameters, 16);
    ladders[kOffload] = {offload, quarter, Both(offload, quarter), sixteenth, Both(offload, sixteenth)};
    ladders[kReshard] = {KeepWhatFits};
  }
  ladders[kRecomputeAll] = {RecomputeMode(Recompute::FULL)};
  for (int32_t stage : {1, 2, 3}) ladders[kZero].push_back(ZeroStage(stage));
  ladders[kMicrobatch] = Microbatches(recipe);
  ladders[kSchedule] = {OneForwardOneBackward};
  // Drop changes that do not apply to this plan.
  for (Ladder& ladder : ladders) {
    const auto none = [&](const Change& change) { return !change({recipe, plan, ""}).has_value(); };
    ladder.erase(std::remove_if(ladder.begin(), ladder.end(), none), ladder.end());
  }
  return ladders;
}

class Search {
 public:
  Search(const Recipe& recipe, const Plan& plan, const Shortage& shortage, int wanted, const TryPlan& try_plan,
         const OnTry& on_try)
      : recipe_(recipe), plan_(plan), shortage_(shortage), wanted_(wanted), try_plan_(try_plan), on_try_(on_try) {}

  Variant AsItIs() const { return {recipe_, plan_, ""}; }
  bool NoneFound() const { return remedies_.found.empty(); }

  // Tries `first`. If it fits, records it as one more remedy and returns true. Finish later replaces it by `gentler`,
  // if that fits too. `gentler` is tried later because it is less likely to fit or takes more compilations.
  bool Attempt(const std::optional<Variant>& first, std::optional<Variant> gentler) {
    if (AllFound()) return false;
    std::optional<Remedy> remedy = RemedyOf(first);
    if (!remedy) return false;
    remedies_.found.push_back(*std::move(remedy));
    gentler_.push_back(std::move(gentler));
    return true;
  }

  // Combines as many changes as possible, each up to its strength in `strongest`. Then reduces them to no more than
  // needed.
  void AttemptAtOnce(std::vector<Ladder> ladders, const Strengths& strongest) {
    if (remedies_.stopped) return;
    remedies_.at_once = true;
    const auto outcome = [&](const Strengths& strengths) {
      const TryOutcome of = OutcomeOf(AtOnce(ladders, strengths));
      remedies_.left_out = remedies_.left_out || of == TryOutcome::kTooLong || of == TryOutcome::kStopped;
      return of;
    };
    const std::optional<Strengths> least = LeastThatFits(strongest, kMicrobatch, outcome);
    if (!least) return;
    const std::string change = AtOnce(ladders, *least).change;
    remedies_.found.push_back({change, std::get<int64_t>(known_.at(change))});
    std::optional<Variant> gentler;
    if ((*least)[kRecomputeAll] > 0 && plan_.recompute().mode() != Recompute::FIT) {
      ladders[kRecomputeAll] = {RecomputeMode(Recompute::FIT)};
      gentler = AtOnce(ladders, *least);
    }
    gentler_.push_back(std::move(gentler));
  }

  Remedies Finish() {
    // Gentler variants get only the tries that remain, because finding more remedies is worth more. So they do not
    // count as a stopped search.
    const bool stopped = remedies_.stopped && !AllFound();
    for (size_t i = 0; i < remedies_.found.size(); ++i) {
      if (std::optional<Remedy> gentler = RemedyOf(gentler_[i])) remedies_.found[i] = *std::move(gentler);
    }
    remedies_.stopped = stopped;
    return std::move(remedies_);
  }

 private:
  bool AllFound() const { return static_cast<int>(remedies_.found.size()) >= wanted_; }

  TriedBytes BytesOf(const Variant& variant) {
    if (const auto known = known_.find(variant.change); known != known_.end()) return known->second;
    if (remedies_.stopped || remedies_.tried.size() >= kMaxTries) return TryOutcome::kStopped;
    if (on_try_) on_try_(absl::StrCat(variant.change, ", ", remedies_.tried.size() + 1, " of at most ", kMaxTries));
    const TriedBytes bytes = try_plan_(variant.recipe, variant.plan);
    remedies_.stopped = bytes == TriedBytes(TryOutcome::kStopped);
    if (!remedies_.stopped && bytes != TriedBytes(TryOutcome::kTooLong)) remedies_.tried.push_back(variant.change);
    known_.emplace(variant.change, bytes);
    return bytes;
  }

  // Returns the variant as a remedy, if the variant exists and fits.
  std::optional<Remedy> RemedyOf(const std::optional<Variant>& variant) {
    if (!variant) return std::nullopt;
    const TriedBytes tried = BytesOf(*variant);
    const int64_t* bytes = std::get_if<int64_t>(&tried);
    if (bytes == nullptr || *bytes > shortage_.capacity) return std::nullopt;
    return Remedy{variant->change, *bytes};
  }

  // Makes the changes with these strengths. A change that no longer applies after the earlier ones is left out.
  Variant AtOnce(const std::vector<Ladder>& ladders, const Strengths& strengths) const {
    Variant variant = AsItIs();
    for (size_t i = 0; i < ladders.size(); ++i) {
      if (strengths[i] == 0) continue;
      if (std::optional<Variant> with = ladders[i][strengths[i] - 1](variant)) variant = *std::move(with);
    }
    return variant;
  }

  TryOutcome OutcomeOf(const Variant& variant) {
    // Without a change this is the plan itself, which does not fit.
    if (variant.change.empty()) return TryOutcome::kDoesNotFit;
    const TriedBytes tried = BytesOf(variant);
    if (const TryOutcome* outcome = std::get_if<TryOutcome>(&tried)) return *outcome;
    return std::get<int64_t>(tried) <= shortage_.capacity ? TryOutcome::kFits : TryOutcome::kDoesNotFit;
  }

  const Recipe& recipe_;
  const Plan& plan_;
  const Shortage shortage_;
  const int wanted_;
  const TryPlan& try_plan_;
  const OnTry& on_try_;
  Remedies remedies_;
  // The gentler variant of each remedy found, in the same order; empty = none.
  std::vector<std::optional<Variant>> gentler_;
  // The result of each change that was tried.
  std::map<std::string, TriedBytes> known_;
};

}  // namespace

Remedies FindRemedies(const Recipe& recipe, const Plan& plan, const Cluster& cluster, int layers, int64_t parameters,
                      const Shortage& shortage, int wanted, const TryPlan& try_plan, const OnTry& on_try) {
  // Kinds of changes. For a kind above 0, no further change of the kind is tried after one of them has given a remedy.
  constexpr int kAny = 0, kRecompute = 1, kKeep = 2, kBuckets = 3;
  struct Numbered {
    int kind;
    Change change;
  };
  const Change full = RecomputeMode(Recompute::FULL);
  std::vector<Numbered> changes = {{kRecompute, full}};
  if (shortage.host) {
    // Try these changes first: no other change is as likely to help.
    changes.insert(changes.begin(), {{kKeep, KeepActivations}, {kKeep, KeepStates}, {kKeep, KeepAll}});
  } else {
    changes.insert(changes.begin(), {kAny, KeepWhatFits});
    for (int64_t part : {4, 16}) changes.push_back({kBuckets, SmallerBuckets(parameters, part)});
  }
  const auto any = [&](Change change) { changes.push_back({kAny, std::move(change)}); };
  any(OneForwardOneBackward);
  for (int64_t part : {2, 4, 8}) any(SmallerMicrobatches(part));
  for (int32_t stage : {1, 2, 3}) any(ZeroStage(stage));
  if (!shortage.host) any(OffloadStates(cluster));
  for (int64_t factor : {2, 4, 8}) {
    any(MoreRanks("pipe", factor, cluster, layers));
    any(MoreRanks("x", factor, cluster, layers));
  }
  Search search(recipe, plan, shortage, wanted, try_plan, on_try);
  // Changes that are not enough alone. They are tried again with all layers recomputed.
  std::vector<size_t> failed;
  std::set<int> fitting_kinds;
  // The plan with all layers recomputed. If set, each further change is first tried on top of it. It is set if
  // recomputing all layers is not enough alone: a change of the original plan would save even less. It is also set if
  // the plan has mode FIT, because choosing FIT's layers takes several compilations and recomputing all takes one.
  std::optional<Variant> recomputed;
  if (plan.recompute().mode() == Recompute::FIT) recomputed = full(search.AsItIs());
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto& [kind, change] = changes[i];
    // One remedy of a kind is enough.
    if (fitting_kinds.count(kind) > 0) continue;
    const std::optional<Variant> variant = change(search.AsItIs());
    bool fits = false;
    if (kind == kRecompute) {
      fits = search.Attempt(variant, RecomputeMode(Recompute::FIT)(search.AsItIs()));
      recomputed = fits ? std::nullopt : variant;
    } else if (recomputed) {
      fits = search.Attempt(change(*recomputed), variant);
    } else {
      fits = search.Attempt(variant, std::nullopt);
      if (!fits) failed.push_back(i);
    }
    if (fits && kind > 0) fitting_kinds.insert(kind);
  }
  for (const size_t i : failed) {
    if (std::optional<Variant> variant = full(search.AsItIs())) {
      search.Attempt(changes[i].change(*std::move(variant)), std::nullopt);
    }
  }
  // If no change or pair of changes was found to be enough, combine more. A combination uses more ranks only if none
  // without more ranks was found to fit.
  const std::vector<Ladder> ladders = AllLadders(recipe, plan, cluster, layers, parameters, shortage.host);
  for (const std::vector<int>& axes : {std::vector<int>{}, {kTensor}, {kPipe}, {kPipe, kTensor}}) {
    Strengths strongest;
    for (const Ladder& ladder : ladders) strongest.push_back(static_cast<int>(ladder.size()));
    const auto none = [&](int axis) { return strongest[axis] == 0; };
    if (!search.NoneFound() || std::any_of(axes.begin(), axes.end(), none)) continue;
    for (const int axis : {kPipe, kTensor}) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) strongest[axis] = 0;
    }
    search.AttemptAtOnce(ladders, strongest);
  }
  return search.Finish();
}

std::string DescribeRemedies(const Remedies& remedies) {
  constexpr absl::string_view kLeftOut =
      "; weft did not try all combinations of changes, because each compilation takes long";
  if (remedies.found.empty() && !remedies.stopped) {
    return absl::StrCat("no change of recompute, microbatches, ZeRO, offload or mesh that weft tried makes it fit",
                        !remedies.at_once   ? ""
                        : remedies.left_out ? kLeftOut
                                            : ", nor do all compatible changes together");
  }
  // Name only the first changes that were tried: all of them would be too long for a line.
  constexpr size_t kShown = 4;
  const size_t shown = std::min(kShown, remedies.tried.size());
  const std::string named =
      absl::StrCat(absl::StrJoin(remedies.tried.begin(), remedies.tried.begin() + shown, ", "),
                   shown < remedies.tried.size() ? absl::StrCat(" and ", remedies.tried.size() - shown, " more") : "");
  const std::string tried = absl::StrCat("each compilation takes long, so weft tried no changes",
                                         remedies.tried.empty() ? "" : absl::StrCat(" beyond ", named));
  if (remedies.found.empty()) return absl::StrCat("weft found no change that makes it fit: ", tried);
  return absl::StrCat("it fits with ",
                      absl::StrJoin(remedies.found, ", or with ",
                                    [](std::string* out, const Remedy& remedy) {
                                      absl::StrAppend(out, remedy.change, " (", BytesText(remedy.planned_bytes), ")");
                                    }),
                      remedies.stopped    ? "; " + tried
                      : remedies.left_out ? kLeftOut
                                          : "");
}

}  // namespace weft::planner
