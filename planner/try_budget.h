// How much is tried to find a way out of a plan that does not fit.
#ifndef WEFT_PLANNER_TRY_BUDGET_H_
#define WEFT_PLANNER_TRY_BUDGET_H_

#include <cstdint>

#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// Of a step, before anything is resolved: at least 1.
int64_t MicrobatchesOfAReplica(const Recipe& recipe, const Plan& plan);

// Bounds compilations by their work instead of their time, so that the same plan is told the same on every machine.
// Every try is taken to be as much work as the program that was refused.
class TryBudget {
 public:
  // Actions and steps of programs, each about 0.2 ms of a core in a build without -c opt: 8 s.
  static constexpr int64_t kMostWork = 40000;

  // `layers` are the model's.
  TryBudget(const Program& refused, int layers);

  // Whether one more plan with this recompute, and with `times` the microbatches, may be tried. The first one always
  // may, and a second where each is within kMostWork (to recompute all, and that with something else), if it is one
  // compilation of no more than kFewTimes the microbatches: where the recompute is chosen, one for each candidate is
  // meant.
  bool Has(const Recompute& recompute, int64_t times = 1) const;
  // One with these was tried.
  void Spend(const Recompute& recompute, int64_t times = 1);

  // So many times the microbatches are no more work; with more, each further time adds the actions of the program. They
  // are tried where kFewTries of them would be within kMostWork: one that fits is compared with others.
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
