#include "proto/validate/validate_plan_parallel.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_test_util.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& plan) { return std::string(ValidateParallelism(Parse<Plan>(plan)).message()); }

TEST(ValidatePlanParallel, ValidCombinations) {
  for (const char* plan : {
           "mesh { axes { name: 'x' size: 4 } axes { name: 'z' size: 2 } } sequence_parallel: true",
           "mesh { axes { name: 'data' size: 12 } } zero { stage: 3 group: 4 }",
           "mesh { axes { name: 'data' size: 12 } } zero { stage: 1 }",
           "overlap { all_reduce: false reduce_scatter: false all_gather: false gathered_cache_bytes: 1000000 }",
           "offload { optimizer: true bucket_elements: 1000 buckets_per_reduce: 2 activation_layers: 3 }",
           "attention: MATERIALIZED recompute { mode: SELECTIVE }",
       }) {
    EXPECT_EQ(Refusal(plan), "") << plan;
  }
}

TEST(ValidatePlanParallel, SequenceParallelismNeedsXAlone) {
  EXPECT_THAT(Refusal("sequence_parallel: true"), HasSubstr("x is 1, y is 1"));
  EXPECT_THAT(Refusal("mesh { axes { name: 'y' size: 2 } } sequence_parallel: true"), HasSubstr("rename axis y to x"));
  EXPECT_THAT(
      Refusal("mesh { axes { name: 'x' size: 2 } axes { name: 'y' size: 3 } } sequence_parallel: true"),
      HasSubstr("plan.sequence_parallel = true needs mesh axis x of at least 2 and axis y of 1; x is 2, y is 3"));
}

TEST(ValidatePlanParallel, EveryStageAndGroupOfZeroIsBuilt) {
  for (const char* zero :
       {"stage: 1", "stage: 2", "stage: 3", "stage: 1 group: 2", "stage: 2 group: 4", "stage: 3 group: 1",
        "stage: 3 reshard: AFTER_BACKWARD prefetch: 0", "stage: 3 reshard: LAYERS kept_layers: [0, 7]",
        "stage: 3 reshard: BY_BENEFIT prefetch: 3"}) {
    Plan plan = Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: 4 } } zero { ", zero, " }"));
    const absl::Status status = ValidateAndResolve(&plan, Device());
    EXPECT_TRUE(status.ok()) << zero << ": " << status;
  }
}

TEST(ValidatePlanParallel, GroupsDivideTheReplicas) {
  const std::string mesh = "mesh { axes { name: 'data' size: 12 } } ";
  EXPECT_THAT(Refusal(mesh + "zero { stage: 1 group: 5 }"),
              HasSubstr("plan.zero.group = 5 must be a divisor of the 12 ranks of mesh axis data; nearest: 4 or 6"));
  EXPECT_THAT(Refusal(mesh + "zero { stage: 1 group: 11 }"), HasSubstr("nearest: 6 or 12"));
  EXPECT_THAT(Refusal(mesh + "zero { stage: 1 group: 13 }"), HasSubstr("must be at most the 12 ranks"));
}

}  // namespace
}  // namespace weft
