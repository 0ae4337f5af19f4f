#include "tests/golden/golden_run.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/models/load_model.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "proto/util/status.h"

namespace weft {

Recipe GoldenRecipe(const Golden& golden, const GoldenPlan& plan, bool gradients) {
  Recipe recipe;
  recipe.set_sequence_length(static_cast<int64_t>(golden.numbers.at("sequence_length")));
  recipe.set_global_batch_sequences(static_cast<int64_t>(golden.numbers.at("global_batch_sequences")));
  recipe.set_microbatch_sequences(plan.microbatch);
  recipe.set_seed(static_cast<uint64_t>(golden.numbers.at("seed")));
  recipe.mutable_lr()->set_decay("constant");
  if (gradients) {
    recipe.set_steps(1);
    recipe.mutable_sgd();
    recipe.mutable_lr()->set_peak(1);
    recipe.set_clip_norm(0);
    return recipe;
  }
  recipe.set_steps(static_cast<int64_t>(golden.numbers.at("steps")));
  recipe.mutable_lr()->set_peak(golden.numbers.at("learning_rate"));
  recipe.set_clip_norm(golden.numbers.at("clip_norm"));
  recipe.mutable_adamw()->set_beta1(golden.numbers.at("beta1"));
  recipe.mutable_adamw()->set_beta2(golden.numbers.at("beta2"));
  recipe.mutable_adamw()->set_epsilon(golden.numbers.at("epsilon"));
  recipe.mutable_adamw()->set_weight_decay(golden.numbers.at("weight_decay"));
  return recipe;
}

Precision AllIn(DType dtype) {
  Precision precision;
  precision.set_compute(dtype);
  precision.set_params(dtype);
  precision.set_grads(dtype);
  precision.set_reduce(dtype);
  precision.set_master(dtype);
  precision.set_moments(dtype);
  return precision;
}

Cluster OneNode(int64_t devices) {
  Cluster cluster;
  cluster.set_name("test");
  cluster.set_nodes(1);
  cluster.set_devices_per_node(devices);
  cluster.mutable_device()->set_name("cpu");
  cluster.mutable_device()->set_memory_bytes(int64_t{1} << 30);
  cluster.mutable_device()->set_memory_bytes_per_second(1e10);
  for (DType dtype : {FP64, FP32}) {
    Peak* peak = cluster.mutable_device()->add_peaks();
    peak->set_dtype(dtype);
    peak->set_flops_per_second(1e11);
  }
  for (Link* link : {cluster.mutable_intra_node(), cluster.mutable_inter_node(), cluster.mutable_host()}) {
    link->set_bytes_per_second(1e10);
    link->set_latency_seconds(1e-6);
  }
  cluster.set_nics_per_node(1);
  return cluster;
}

absl::StatusOr<Program> CompileGolden(const std::string& folder, const Recipe& recipe, const GoldenPlan& golden) {
  WEFT_ASSIGN_OR_RETURN(const ModelGraph model, LoadModel(absl::StrCat(folder, "/config.json")));
  Plan plan;
  MeshAxis* axis = plan.mutable_mesh()->add_axes();
  axis->set_name("pipe");
  axis->set_size(golden.pipe);
  plan.set_accumulation(golden.accumulation);
  *plan.mutable_precision() = AllIn(golden.dtype);
  planner::CompileOptions options;
  options.evaluation = false;
  return planner::CompilePlan(model, recipe, plan, OneNode(golden.pipe), options);
}

std::vector<double> Doubles(const exec::TensorData& tensor) {
  const size_t size = tensor.dtype == FP64 ? 8 : 4;
  std::vector<double> values(tensor.bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == FP64) {
      std::memcpy(&values[i], tensor.bytes.data() + 8 * i, 8);
    } else {
      float value;
      std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
      values[i] = value;
    }
  }
  return values;
}

void ExpectGradients(const Golden& golden, const Program& program, const exec::RunResult& result) {
  ASSERT_EQ(result.report.steps_size(), 1);
  EXPECT_NEAR(result.report.steps(0).loss(), golden.numbers.at("loss_fp64"), 1e-12);
  EXPECT_NEAR(result.report.steps(0).grad_norm(), golden.grad_norms_fp64[0], 1e-10);
  ASSERT_EQ(result.weights.size(), golden.gradients.size());
  for (int i = 0; i < program.tensors_size(); ++i) {
    const std::string& name = program.tensors(i).name();
    ASSERT_TRUE(golden.gradients.contains(name)) << name;
    const std::vector<double>& before = golden.initial.at(name);
    std::vector<double> gradient = Doubles(result.weights[i]);
    ASSERT_EQ(gradient.size(), before.size()) << name;
    for (size_t e = 0; e < gradient.size(); ++e) gradient[e] = before[e] - gradient[e];
    EXPECT_LE(RelativeDistance(name, gradient, golden.gradients.at(name), golden.zero_gradients), 1e-10) << name;
  }
}

void ExpectTraining(const Golden& golden, DType dtype, const LossDistance& distance, const Program& program,
                    const exec::RunResult& result) {
  const bool double_precision = dtype == FP64;
  const std::vector<double>& losses = double_precision ? golden.losses_fp64 : golden.losses_fp32;
  const std::vector<double>& norms = double_precision ? golden.grad_norms_fp64 : golden.grad_norms_fp32;
  ASSERT_GE(losses.size(), 20u);
  ASSERT_EQ(result.report.steps_size(), static_cast<int>(losses.size()));
  for (size_t step = 0; step < losses.size(); ++step) {
    const RunStep& got = result.report.steps(static_cast<int>(step));
    EXPECT_LE(distance(got.loss(), losses[step]), double_precision ? 1e-9 : 1e-5) << "step " << step;
    EXPECT_LE(std::abs(got.grad_norm() / norms[step] - 1), double_precision ? 1e-8 : 1e-4) << "step " << step;
  }
  ASSERT_EQ(result.weights.size(), golden.final.size());
  for (int i = 0; i < program.tensors_size(); ++i) {
    const std::string& name = program.tensors(i).name();
    EXPECT_LE(RelativeDistance(name, Doubles(result.weights[i]), golden.final.at(name), golden.zero_gradients), 1e-4)
        << name;
  }
}

}  // namespace weft
