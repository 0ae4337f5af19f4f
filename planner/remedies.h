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
  // Planned bytes of the memory that was short.
  int64_t planned_bytes = 0;
};

struct Remedies {
  std::vector<Remedy> found;
  // All changes that were tried, including those found.
  std::vector<std::string> tried;
  // True if `try_plan` ended the search although fewer remedies than wanted were found and there was more to try.
  bool stopped = false;
  // `at_once`: all changes were tried at once. `left_out`: some of these tries were left out, because they take long.
  bool at_once = false;
  bool left_out = false;
};

// The memory that a plan needs too much of.
struct Shortage {
  // True for the memory of the nodes, false for the memory of the devices.
  bool host = false;
  // The bytes that there are.
  int64_t capacity = 0;
};

// Called before each try with its description, e.g. "--set mbs=2, 3 of at most 40"; may be null.
using OnTry = std::function<void(absl::string_view)>;

// The planned bytes of the fullest rank, or, if host memory is short, of the fullest node. If no bytes were planned,
// why: any outcome except kFits.
using TriedBytes = std::variant<int64_t, TryOutcome>;
using TryPlan = std::function<TriedBytes(const Recipe& recipe, const Plan& plan)>;

// Finds up to `wanted` changes after which the plan needs at most `shortage.capacity` bytes, gentler ones first.
//
// If the host lacks memory, the first changes keep on the devices what is offloaded. Then come recompute, the schedule,
// smaller microbatches, states cut over replicas, more of the ranks for each replica, and then two of these at once. If
// recomputing all layers is not enough, or the plan has recompute FIT, each change is tried with all layers recomputed,
// and, if that fits, at the end without. If none of this is enough, all changes that go together are tried. If they
// fit, the result is one remedy with no more of them than needed and with the largest microbatch that fits, as far as
// no try was left out.
//
// Every remedy was tried as it is returned; there are at most kMaxTries tries. `recipe` and `plan` are as the user
// gave them, `layers` bounds the stages, `parameters` is the model's number of parameters.
inline constexpr int kMaxTries = 40;
Remedies FindRemedies(const Recipe& recipe, const Plan& plan, const Cluster& cluster, int layers, int64_t parameters,
                      const Shortage& shortage, int wanted, const TryPlan& try_plan, const OnTry& on_try = nullptr);

// Returns "it fits with --set recompute.mode=FULL (61.2 GiB), or with --set mbs=1 (70 GiB)"; or says that nothing was
// found. If the search was stopped, also names what was tried.
std::string DescribeRemedies(const Remedies& remedies);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_REMEDIES_H_
