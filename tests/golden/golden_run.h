// Compiles and trains the models of golden files.
#ifndef WEFT_TESTS_GOLDEN_GOLDEN_RUN_H_
#define WEFT_TESTS_GOLDEN_GOLDEN_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/data/data.h"
#include "executor/run/run.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"
#include "tests/golden/golden.h"

namespace weft {

struct GoldenPlan {
  // Type of weights, gradients, optimizer states and computation.
  DType dtype;
  int64_t pipe;
  int64_t microbatch;
  AccumulationMode accumulation;
};

// Returns the recipe of a golden file. With `gradients`, it has one step of SGD with learning rate 1 and no clipping,
// so that the step subtracts the gradient from the weights. Otherwise it has the file's AdamW.
Recipe GoldenRecipe(const Golden& golden, const GoldenPlan& plan, bool gradients);

// Precision of a plan that uses `dtype` everywhere.
Precision AllIn(DType dtype);

// Returns one node with this many equal devices and enough memory for everything.
Cluster OneNode(int64_t devices);

// Compiles the model of `folder`/config.json.
absl::StatusOr<Program> CompileGolden(const std::string& folder, const Recipe& recipe, const GoldenPlan& plan);

// The elements of a tensor of FP32 or FP64.
std::vector<double> Doubles(const exec::TensorData& tensor);

// Checks the gradients of a run of GoldenRecipe(gradients). Its one step of plain SGD with learning rate 1 subtracts
// the gradient from the weights. So the gradient is the difference of weights before and after the step. Weights of
// about 0.02 have a relative precision of 1e-16, which is enough for gradients of about 1e-3.
void ExpectGradients(const Golden& golden, const Program& program, const exec::RunResult& result);

// Checks losses, norms and final weights of a run of GoldenRecipe without `gradients`. `distance` compares two losses.
using LossDistance = std::function<double(double, double)>;
void ExpectTraining(const Golden& golden, DType dtype, const LossDistance& distance, const Program& program,
                    const exec::RunResult& result);

}  // namespace weft

#endif  // WEFT_TESTS_GOLDEN_GOLDEN_RUN_H_
