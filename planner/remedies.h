// What to change in a plan that does not fit the devices' memory: changes that were compiled and do fit.
#ifndef WEFT_PLANNER_REMEDIES_H_
#define WEFT_PLANNER_REMEDIES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

struct Remedy {
  // As flags, e.g. "--set recompute.mode=FULL --set mbs=2".
  std::string change;
  // Of the memory that was short.
  int64_t planned_bytes = 0;
};

struct Remedies {
  std::vector<Remedy> found;
  // Changes that were tried, those found among them.
  std::vector<std::string> tried;
  // Fewer than wanted were found, there were more to try, and `planned_bytes` wanted no more.
  bool stopped = false;
  // Whether changes were tried all at once, and whether some of these tries were left out, as they would take long.
  bool at_once = false;
  bool left_out = false;
};

// What a plan needs too much of.
struct Shortage {
  // The nodes' memory, else that of the devices.
  bool host = false;
  // The bytes there are.
  int64_t capacity = 0;
};

// Told what is tried next, e.g. "--set mbs=2, 3 of at most 40"; null: nobody is.
using OnTry = std::function<void(absl::string_view)>;

// Planned bytes of the fullest rank, or, where host memory is short, of the fullest node; an error for what cannot be
// compiled or does not fit; Unavailable for what is not tried, as it takes longer than others may; Cancelled where
// nothing more is to be tried.
using PlannedBytesOf = std::function<absl::StatusOr<int64_t>(const Recipe& recipe, const Plan& plan)>;

// Up to `wanted` changes after which at most `shortage.capacity` bytes are needed, gentler ones first: what is short on
// the host is left on the devices, or else recompute, the schedule, smaller microbatches, states cut over replicas,
// more of the same ranks for a replica, then two of these at once. Where to recompute all is not enough, or the plan
// has recompute FIT, each is tried with all recomputed, and last without if that fits. Where none of these is enough,
// all that go together are tried, and of those that do it one way is told with no more of them than are needed, and the
// largest microbatch that does, as far as nothing was left out. Each was tried as it is told; no more than kMostTries
// are. `recipe` and `plan` are as
// the user gave them, `layers` bounds the stages, `parameters` are the model's.
inline constexpr int kMostTries = 40;
Remedies FindRemedies(const Recipe& recipe, const Plan& plan, const Cluster& cluster, int layers, int64_t parameters,
                      const Shortage& shortage, int wanted, const PlannedBytesOf& planned_bytes,
                      const OnTry& on_try = nullptr);

// "it fits with --set recompute.mode=FULL (61.2 GiB), or with --set mbs=1 (70 GiB)"; or that nothing was found. Where
// the search was stopped, also what was tried.
std::string DescribeRemedies(const Remedies& ways);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_REMEDIES_H_
