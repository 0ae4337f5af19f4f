// Bounds the search for remedies of a plan that does not fit.
#ifndef WEFT_PLANNER_TRY_BUDGET_H_
#define WEFT_PLANNER_TRY_BUDGET_H_

#include <cstdint>

#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// Number of microbatches of a replica in one step, computed from the unresolved recipe and plan; at least 1.
int64_t MicrobatchesOfAReplica(const Recipe& recipe, const Plan& plan);

// Bounds the search by the work of its compilations instead of their time, so that a plan gets the same message on
// every machine. Each compilation is assumed to take the same work as the compilation of the refused program.
class TryBudget {
 public:
  // Limit on the work: the number of actions and steps of all programs tried. Each takes about 0.2 ms of a core in a
  // build without -c opt, so the limit is about 8 s.
  static constexpr int64_t kMaxWork = 40000;

  // `layers` is the model's number of layers.
  TryBudget(const Program& refused, int layers);

  // Returns true if one more plan may be tried, with this recompute and `times` as many microbatches as the refused
  // plan. If the recompute must be chosen, a try takes one compilation for each candidate. A plan that takes one
  // compilation and has at most kFewTimes as many microbatches may always be tried first. It may also be tried second,
  // if one try is within kMaxWork: the search first recomputes all layers, then combines that with another change.
  bool Has(const Recompute& recompute, int64_t times = 1) const;
  // Counts the work of one try of such a plan.
  void Spend(const Recompute& recompute, int64_t times = 1);

  // Up to kFewTimes as many microbatches count as no additional work. Each further multiple adds the actions of the
  // program to the work. A plan with more than kFewTimes as many is tried only if kFewTries such tries would be within
  // kMaxWork, because a plan that fits is then compared with others.
  static constexpr int64_t kFewTimes = 8;
  static constexpr int64_t kFewTries = 16;

 private:
  int64_t WorkOfTry(const Recompute& recompute, int64_t times) const;

  int64_t actions_ = 0;
  int64_t work_ = 0;
  int64_t layers_ = 0;
  int64_t spent_ = 0;
};

}  // namespace weft::planner

#endif  // WEFT_PLANNER_TRY_BUDGET_H_
