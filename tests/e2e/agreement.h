// Checks that training a tiny GPT under one plan agrees with training it under another. Each function is a whole test,
// for test files that differ only in their plans.
#ifndef WEFT_TESTS_E2E_AGREEMENT_H_
#define WEFT_TESTS_E2E_AGREEMENT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/run/run.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {

// Returns the outcome. If `result` is an error, fails the test and returns an empty outcome.
Outcome Must(const absl::StatusOr<exec::RunResult>& result, const std::string& what);

// Returns the plan with one data rank, one pipe rank, schedule 1f1b, and no schedule or plan fields. The sizes of x, y
// and z stay.
TinyPlan OneCopy(TinyPlan plan);

// Trains each plan at its first Get and keeps the outcome.
class Outcomes {
 public:
  const Outcome& Get(const TinyPlan& plan);

 private:
  std::map<std::string, Outcome> outcomes_;
};

// Checks that the plan trains like its OneCopy: bit for bit under exact accumulation, else within 1e-5. If the plan
// clips, clipping must be active in the first step; otherwise norms would have no effect.
void ExpectLikeOneRank(const TinyPlan& plan, Outcomes& references);

// Checks that the plan fields `fields`, which shard states over replicas, change only the gradient norms, because these
// are then summed from parts. If `tolerance` is 0, losses and weights must have the same bits; otherwise ExpectClose
// compares losses and norms. Clipping is turned off, because it would pass changes of the norms on to the weights.
void ExpectShardedLikeWhole(TinyPlan plan, const std::string& fields, double tolerance);

// Checks that each plan resumes the checkpoint that the plan before it saved halfway (the first plan resumes the last
// plan's), and then has the losses and the weights of one rank, bit for bit. `name` distinguishes the checkpoint
// directories of tests.
void ExpectCheckpointsGoRound(const std::string& name, const std::vector<TinyPlan>& plans);

// Checks that the losses on each mesh differ from the losses of the plan by at most `tolerance`, relative.
void ExpectLossesClose(const TinyPlan& plan, const std::vector<std::string>& meshes, double tolerance);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_AGREEMENT_H_
