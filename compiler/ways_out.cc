#include "compiler/ways_out.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/mesh.h"
#include "proto/set_field.h"
#include "proto/units_text.h"

namespace weft {
namespace {

// What plan.offload.bucket_elements = 0 stands for.
constexpr int64_t kDefaultBucketElements = int64_t{1} << 24;

// A recipe and a plan with something changed.
struct Variant {
  Recipe recipe;
  Plan plan;
  std::string change;
};
using Change = std::function<std::optional<Variant>(Variant variant)>;

// With a setting as the command line takes it; nothing if that is not possible.
std::optional<Variant> With(Variant variant, absl::string_view setting) {
  if (!ApplySetting(setting, &variant.recipe, &variant.plan).ok()) return std::nullopt;
  absl::StrAppend(&variant.change, variant.change.empty() ? "--set " : " --set ", setting);
  return variant;
}

// A flag changes one field: others that go with another mode would stay.
Change RecomputeMode(Recompute::Mode mode) {
  return [mode](Variant variant) -> std::optional<Variant> {
    const Recompute::Mode now = variant.plan.recompute().mode();
    const bool alone = now == Recompute::NONE || now == Recompute::SELECTIVE || now == Recompute::FIT;
    if (!alone || now == mode) return std::nullopt;
    return With(std::move(variant), absl::StrCat("recompute.mode=", Recompute::Mode_Name(mode)));
  };
}

// Fewer microbatches in flight.
std::optional<Variant> OneForwardOneBackward(Variant variant) {
  const PlanSchedule& schedule = variant.plan.schedule();
  PlanSchedule bare;
  bare.set_name(schedule.name());
  if (schedule.SerializeAsString() != bare.SerializeAsString()) return std::nullopt;
  if (schedule.name() == "1f1b" || schedule.name().empty()) return std::nullopt;
  if (variant.plan.partition().layers_per_stage_size() > 0) return std::nullopt;
  return With(std::move(variant), "schedule=1f1b");
}

// Microbatches of 1/`part`, at least `part` sequences.
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

// Parameters that are gathered and kept are kept as far as there is room.
std::optional<Variant> KeepWhatFits(Variant variant) {
  const Zero::Reshard now = variant.plan.zero().reshard();
  if (now != Zero::NEVER && now != Zero::AFTER_BACKWARD) return std::nullopt;
  return With(std::move(variant), "zero.reshard=BY_BENEFIT");
}

// Master weights and moments in host memory.
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

// Less in host memory.
std::optional<Variant> KeepStates(Variant variant) {
  const Offload offload = variant.plan.offload();
  if (!offload.optimizer()) return std::nullopt;
  std::optional<Variant> with = With(std::move(variant), "offload.optimizer=false");
  // These are refused without it.
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

// Fewer states on the device at a time: a part of what a rank has if that is cut over all ranks but those of `data`.
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

// `factor` times the ranks on `axis` for a replica: those of as many replicas, or else more ranks if the cluster has
// them.
Change MoreRanks(std::string axis, int64_t factor, const Cluster& cluster, int layers) {
  return [axis, factor, &cluster, layers](Variant variant) -> std::optional<Variant> {
    const Mesh& mesh = variant.plan.mesh();
    const int64_t now = AxisSize(mesh, axis), replicas = AxisSize(mesh, "data");
    if (axis == "pipe" && (now * factor > layers || variant.plan.partition().layers_per_stage_size() > 0)) {
      return std::nullopt;
    }
    // tp is x alone: it would take y and z away.
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

}  // namespace

WaysOut FindWaysOut(const Recipe& recipe, const Plan& plan, const Cluster& cluster, int layers, int64_t parameters,
                    const Shortage& shortage, int wanted, const PlannedBytesOf& planned_bytes, const OnTry& on_try) {
  // Of a kind above 0 one way is enough.
  constexpr int kAny = 0, kRecompute = 1, kKeep = 2, kBuckets = 3;
  struct Numbered {
    int kind;
    Change change;
  };
  const Change full = RecomputeMode(Recompute::FULL);
  std::vector<Numbered> changes = {{kRecompute, full}};
  if (shortage.host) {
    // In front: nothing else is as sure to help.
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
  WaysOut ways;
  const auto all_found = [&] { return static_cast<int>(ways.found.size()) >= wanted; };
  // The way that the variant is, if it exists and fits.
  const auto way_of = [&](const std::optional<Variant>& variant) -> std::optional<WayOut> {
    if (!variant || ways.stopped || ways.tried.size() >= kMostTries) return std::nullopt;
    if (on_try) on_try(absl::StrCat(variant->change, ", ", ways.tried.size() + 1, " of at most ", kMostTries));
    const absl::StatusOr<int64_t> bytes = planned_bytes(variant->recipe, variant->plan);
    ways.stopped = absl::IsCancelled(bytes.status());
    if (!ways.stopped && !absl::IsUnavailable(bytes.status())) ways.tried.push_back(variant->change);
    if (!bytes.ok() || *bytes > shortage.capacity) return std::nullopt;
    return WayOut{variant->change, *bytes};
  };
  // Of each way that was found, what is better if it fits too, but is less likely to or takes more compilations.
  std::vector<std::optional<Variant>> gentler_ways;
  const auto attempt = [&](const std::optional<Variant>& first, std::optional<Variant> gentler) {
    if (all_found()) return false;
    std::optional<WayOut> way = way_of(first);
    if (!way) return false;
    ways.found.push_back(*std::move(way));
    gentler_ways.push_back(std::move(gentler));
    return true;
  };
  // What does not help enough by itself may with everything recomputed.
  std::vector<size_t> failed;
  std::set<int> fitting_kinds;
  // With this a change is tried first where to recompute all is not enough (without, it saves less), and where the plan
  // has FIT, which takes several compilations.
  std::optional<Variant> recomputed;
  if (plan.recompute().mode() == Recompute::FIT) recomputed = full({recipe, plan, ""});
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto& [kind, change] = changes[i];
    // One way of a kind is enough.
    if (fitting_kinds.count(kind) > 0) continue;
    const std::optional<Variant> variant = change({recipe, plan, ""});
    bool fits = false;
    if (kind == kRecompute) {
      fits = attempt(variant, RecomputeMode(Recompute::FIT)({recipe, plan, ""}));
      recomputed = fits ? std::nullopt : variant;
    } else if (recomputed) {
      fits = attempt(change(*recomputed), variant);
    } else {
      fits = attempt(variant, std::nullopt);
      if (!fits) failed.push_back(i);
    }
    if (fits && kind > 0) fitting_kinds.insert(kind);
  }
  for (const size_t i : failed) {
    if (std::optional<Variant> variant = full({recipe, plan, ""})) {
      attempt(changes[i].change(*std::move(variant)), std::nullopt);
    }
  }
  // With what is left of the tries: to know more ways is worth more.
  const bool stopped = ways.stopped && !all_found();
  for (size_t i = 0; i < ways.found.size(); ++i) {
    if (std::optional<WayOut> gentler = way_of(gentler_ways[i])) ways.found[i] = *std::move(gentler);
  }
  ways.stopped = stopped;
  return ways;
}

std::string DescribeWaysOut(const WaysOut& ways) {
  if (ways.found.empty() && !ways.stopped) {
    return "no change of recompute, microbatches, ZeRO, offload or mesh that was tried makes it fit";
  }
  const std::string tried = absl::StrCat(
      "to compile so large a program takes long, so ",
      ways.tried.empty() ? "none was tried" : absl::StrCat("no more was tried than ", absl::StrJoin(ways.tried, ", ")));
  if (ways.found.empty()) return absl::StrCat("no change is known to make it fit: ", tried);
  return absl::StrCat("it fits with ",
                      absl::StrJoin(ways.found, ", or with ",
                                    [](std::string* out, const WayOut& way) {
                                      absl::StrAppend(out, way.change, " (", BytesText(way.planned_bytes), ")");
                                    }),
                      ways.stopped ? "; " + tried : "");
}

}  // namespace weft
