// Compiles and trains the models of golden files.
#ifndef WEFT_TESTS_GOLDEN_GOLDEN_RUN_H_
#define WEFT_TESTS_GOLDEN_GOLDEN_RUN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/data.h"
#include "executor/run.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"
#include "tests/golden/golden.h"

namespace weft {

struct GoldenPlan {
  // Of everything.
  DType dtype;
  int64_t pipe;
  int64_t microbatch;
  AccumulationMode accumulation;
};

// The recipe of a golden file without an optimizer: SGD with learning rate 1 and no clipping for `gradients`, so that
// one step takes the gradient off the weights; else its AdamW.
Recipe GoldenRecipe(const Golden& golden, const GoldenPlan& plan, bool gradients);

// The model of `folder`/config.json.
absl::StatusOr<Program> CompileGolden(const std::string& folder, const Recipe& recipe, const GoldenPlan& plan);

// Elements of FP32 or FP64.
std::vector<double> Doubles(const TensorData& tensor);

}  // namespace weft

#endif  // WEFT_TESTS_GOLDEN_GOLDEN_RUN_H_
