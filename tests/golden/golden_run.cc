#include "tests/golden/golden_run.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/models/load_model.h"
#include "proto/status.h"

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

absl::StatusOr<Program> CompileGolden(const std::string& folder, const Recipe& recipe, const GoldenPlan& golden) {
  WEFT_ASSIGN_OR_RETURN(const ModelGraph model, LoadModel(absl::StrCat(folder, "/config.json")));
  Plan plan;
  MeshAxis* axis = plan.mutable_mesh()->add_axes();
  axis->set_name("pipe");
  axis->set_size(golden.pipe);
  plan.set_accumulation(golden.accumulation);
  Precision& precision = *plan.mutable_precision();
  precision.set_compute(golden.dtype);
  precision.set_params(golden.dtype);
  precision.set_grads(golden.dtype);
  precision.set_reduce(golden.dtype);
  precision.set_master(golden.dtype);
  precision.set_moments(golden.dtype);
  Cluster cluster;
  cluster.set_name("test");
  cluster.set_nodes(1);
  cluster.set_devices_per_node(golden.pipe);
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
  CompileOptions options;
  options.evaluation = false;
  return Compile(model, recipe, plan, cluster, options);
}

std::vector<double> Doubles(const TensorData& tensor) {
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

}  // namespace weft
