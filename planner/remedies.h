// Finds changes to a plan that does not fit in memory. Each change was compiled and fits.
#ifndef WEFT_PLANNER_REMEDIES_H_
#define WEFT_PLANNER_REMEDIES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/least_that_fits.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

struct Remedy {
  // The change as flags, e.g. "--set recompute.mode=FULL --set mbs=2".
  std::string change;
  // Bytes of the memory that was short, as planned with the change.
  int64_t planned_bytes = 0;
};

struct Remedies {
  std::vector<Remedy> found;
  // All changes that were tried, including those that fit.
  std::vector<std::string> tried;
  // True if `try_plan` ended the search before the wanted number of remedies was found, with more changes left to try.
  bool stopped = false;
  // `at_once` is true if the search tried all changes together. `left_out` is true if it left out some of these tries,
  // because they take too long or would exceed kMaxTries.
  bool at_once = false;
  bool left_out = false;
};

// The memory that is too small for a plan.
struct Shortage {
  // True for the memory of the nodes, false for the memory of the devices.
  bool host = false;
  // The bytes of this memory that the plan may use.
  int64_t capacity = 0;
};

// Called before each try with its description, e.g. "--set mbs=2, 3 of at most 40"; may be null.
using OnTry = std::function<void(absl::string_view)>;

// The result of a try: the planned bytes of the fullest rank, or, if host memory is short, of the fullest node. If the
// try gave no number, the reason: any outcome except kFits.
using TriedBytes = std::variant<int64_t, TryOutcome>;
using TryPlan = std::function<TriedBytes(const Recipe& recipe, const Plan& plan)>;

// Finds up to `wanted` changes after which the plan needs at most `shortage.capacity` bytes, gentler ones first.
//
// If host memory is short, the first changes keep offloaded data on the devices. If device memory is short, the first
// one keeps fewer gathered parameters. Then come recompute, smaller offload buckets, the schedule, smaller
// microbatches, states that are sharded over replicas, offloaded states, more ranks for each replica, and then changes
// together with recomputing all layers. Buckets and offloaded states are tried only if device memory is short. If
// recomputing all layers is not enough, or the plan has recompute FIT, each change is first tried with all layers
// recomputed. If that fits, the change alone is tried at the end. If none of this is enough, all compatible changes are
// combined. If they fit, the result is one remedy with no more changes than needed and with the largest microbatch that
// fits, unless some tries were left out.
//
// Every remedy was tried exactly as it is returned. There are at most kMaxTries tries. `recipe` and `plan` are as the
// user gave them, `layers` bounds the stages, `parameters` is the model's number of parameters.
inline constexpr int kMaxTries = 40;
Remedies FindRemedies(const Recipe& recipe, const Plan& plan, const Cluster& cluster, int layers, int64_t parameters,
                      const Shortage& shortage, int wanted, const TryPlan& try_plan, const OnTry& on_try = nullptr);

// Returns "it fits with --set recompute.mode=FULL (61.2 GiB), or with --set mbs=1 (70 GiB)", or a text that no change
// was found. If the search was stopped, the text also names the changes that were tried.
std::string DescribeRemedies(const Remedies& remedies);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_REMEDIES_H_
