// How the training of a tiny GPT under one plan must agree with that under another: whole tests in a line, for files
// that differ in what they ask of plans.
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

// The test fails, and nothing is compared, if it is an error.
Outcome Must(const absl::StatusOr<exec::RunResult>& result, const std::string& what);

// The same plan on one rank of data and pipe, nothing cut; the shape of x, y and z stays.
TinyPlan OneCopy(TinyPlan plan);

// Outcomes of plans, each trained once.
class Outcomes {
 public:
  const Outcome& Get(const TinyPlan& plan);

 private:
  std::map<std::string, Outcome> outcomes_;
};

// As the plan's OneCopy: bit for bit under exact accumulation, else within 1e-5. Where there is clipping it is active,
// or norms would not matter.
void ExpectLikeOneRank(const TinyPlan& plan, Outcomes& references);

// Fields of the plan that cut states over replicas change nothing but for norms, which are summed from parts: losses
// and weights are the same bits if `tolerance` is 0, else within it (ExpectClose). Without clipping.
void ExpectCutLikeWhole(TinyPlan plan, const std::string& fields, double tolerance);

// What one plan has saved in the middle the next goes on with, to the losses of one rank and the same bits of weights.
// `name` tells the checkpoints of a test from others.
void ExpectCheckpointsGoRound(const std::string& name, const std::vector<TinyPlan>& plans);

// Losses on each of the meshes are within `tolerance`, relative, of those of the plan.
void ExpectLossesClose(const TinyPlan& plan, const std::vector<std::string>& meshes, double tolerance);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_AGREEMENT_H_
