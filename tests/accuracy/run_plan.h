// Builds the recipe and plan of a measured run.
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
  // True if the source does not state what is recomputed. Then all activations are kept if they fit on the device, or
  // if the host can hold the excess. Otherwise as many layers as needed are recomputed.
  bool recompute_unknown = false;
};

// Returns InvalidArgument if weft cannot express the run: a size that is not stated, context parallelism, ...
absl::StatusOr<RunPlan> PlanOf(const Measurement& run, const Runtime& runtime, std::vector<std::string>* assumptions);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_RUN_PLAN_H_
