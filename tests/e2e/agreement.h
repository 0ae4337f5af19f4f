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

// Returns the same plan with one data and one pipe rank and without plan fields. The sizes of x, y and z stay.
TinyPlan OneCopy(TinyPlan plan);

// Outcomes of plans, each trained once.
class Outcomes {
 public:
  const Outcome& Get(const TinyPlan& plan);

 private:
  std::map<std::string, Outcome> outcomes_;
};

// Checks that the plan trains like its OneCopy: bit for bit under exact accumulation, else within 1e-5. If the plan
// clips, clipping must be active in the first step; otherwise norms would have no effect.
void ExpectLikeOneRank(const TinyPlan& plan, Outcomes& references);

// Plan fields that shard states over replicas change only the norms, which are then summed from parts. Losses and
// weights are the same bits if `tolerance` is 0, else within it (ExpectClose). Clipping is off.
void ExpectCutLikeWhole(TinyPlan plan, const std::string& fields, double tolerance);

// Each plan resumes the checkpoint that the plan before it saved halfway, and reaches the losses of one rank and the
// same bits of weights. `name` distinguishes the checkpoint directories of tests.
void ExpectCheckpointsGoRound(const std::string& name, const std::vector<TinyPlan>& plans);

// Checks that the losses on each mesh differ from the losses of the plan by at most `tolerance`, relative.
void ExpectLossesClose(const TinyPlan& plan, const std::vector<std::string>& meshes, double tolerance);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_AGREEMENT_H_
