// Recipe and plan of a measured run.
#ifndef WEFT_TESTS_ACCURACY_RUN_PLAN_H_
#define WEFT_TESTS_ACCURACY_RUN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/runtime.pb.h"
#include "tests/accuracy/measurement.h"

namespace weft {

struct RunPlan {
  Recipe recipe;
  Plan plan;
  // The source does not say what is recomputed: all activations are kept if that fits, else every layer's input.
  bool recompute_unknown = false;
};

// InvalidArgument says why weft cannot express the run: a size that is not stated, context parallelism, ...
absl::StatusOr<RunPlan> PlanOf(const Measurement& run, const Runtime& runtime, std::vector<std::string>* assumptions);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_RUN_PLAN_H_
