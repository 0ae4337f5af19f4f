// PipeDream and PipeDream-2BW from config.json to trained weights, compared with PyTorch's numbers for the same delayed
// updates without a pipeline (make_pipedream_golden.py).
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/models/load_model.h"
#include "executor/data/data.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "tests/golden/golden.h"
#include "tests/golden/golden_run.h"

namespace weft {
namespace {

const char kFolder[] = "tests/golden/gpt2_pipedream";

struct Setting {
  const char* schedule;
  int stages;
  DType dtype;
  // Number of data replicas, which share the microbatches of an update.
  int data = 1;
  const char* transport = "inproc";
};

class PipeDreamGoldenTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    std::string method = GetParam().schedule;
    for (char& c : method) c = c == '-' ? '_' : c;
    absl::StatusOr<DelayedGolden> golden = LoadDelayedGolden(kFolder, absl::StrCat(method, "_", GetParam().stages));
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = *std::move(golden);
    exec::DataOptions data;
    data.path = "tests/golden/gpt2_tiny/text.txt";
    data.sequence_length = Integer("sequence_length");
    data.vocabulary = 256;
    data.seed = Integer("seed");
    auto opened = exec::OpenData(data);
    ASSERT_TRUE(opened.ok()) << opened.status();
    data_ = *std::move(opened);
  }

  int64_t Integer(const char* name) const { return static_cast<int64_t>(golden_.numbers.at(name)); }

  Recipe RecipeOfGolden() const {
    const bool two_buffered = std::string(GetParam().schedule) == "pipedream-2bw";
    Recipe recipe;
    recipe.set_sequence_length(Integer("sequence_length"));
    // Replicas do not change the number of microbatches per replica. They divide the sequences of each microbatch.
    recipe.set_microbatch_sequences(Integer("microbatch_sequences") / GetParam().data);
    recipe.set_global_batch_sequences(Integer("microbatch_sequences") * (two_buffered ? GetParam().stages : 1));
    recipe.set_seed(Integer("seed"));
    recipe.set_steps(Integer("steps"));
    recipe.set_clip_norm(0);
    recipe.mutable_lr()->set_decay("constant");
    recipe.mutable_lr()->set_peak(golden_.numbers.at("learning_rate"));
    recipe.mutable_adamw()->set_beta1(golden_.numbers.at("beta1"));
    recipe.mutable_adamw()->set_beta2(golden_.numbers.at("beta2"));
    recipe.mutable_adamw()->set_epsilon(golden_.numbers.at("epsilon"));
    recipe.mutable_adamw()->set_weight_decay(golden_.numbers.at("weight_decay"));
    return recipe;
  }

  absl::StatusOr<Program> CompileProgram() const {
    absl::StatusOr<ModelGraph> model = LoadModel(absl::StrCat(kFolder, "/config.json"));
    if (!model.ok()) return model.status();
    Plan plan;
    const auto add_axis = [&](const char* name, int size) {
      MeshAxis* axis = plan.mutable_mesh()->add_axes();
      axis->set_name(name);
      axis->set_size(size);
    };
    add_axis("pipe", GetParam().stages);
    if (GetParam().data > 1) add_axis("data", GetParam().data);
    plan.mutable_schedule()->set_name(GetParam().schedule);
    // The embedding, two blocks and the head are four layers, which stages share equally.
    for (int stage = 0; stage < GetParam().stages; ++stage) {
      plan.mutable_partition()->add_layers_per_stage(4 / GetParam().stages);
    }
    *plan.mutable_precision() = AllIn(GetParam().dtype);
    return planner::CompilePlan(*model, RecipeOfGolden(), plan, OneNode(GetParam().stages * GetParam().data), {});
  }

  DelayedGolden golden_;
  std::unique_ptr<exec::DataSource> data_;
};

TEST_P(PipeDreamGoldenTest, LossesAndWeights) {
  absl::StatusOr<Program> program = CompileProgram();
  ASSERT_TRUE(program.ok()) << program.status();
  const bool two_buffered = std::string(GetParam().schedule) == "pipedream-2bw";
  EXPECT_EQ(program->steps_per_repetition(), two_buffered ? 2 : GetParam().stages);
  exec::RunOptions options;
  options.weights = absl::StrCat(kFolder, "/initial.safetensors");
  options.collect_weights = true;
  absl::StatusOr<exec::RunResult> result = exec::RunProgram(*program, *data_, GetParam().transport, options);
  ASSERT_TRUE(result.ok()) << result.status();
  const bool double_precision = GetParam().dtype == FP64;
  ASSERT_EQ(result->report.steps_size(), static_cast<int>(golden_.losses.size()));
  for (size_t step = 0; step < golden_.losses.size(); ++step) {
    const RunStep& got = result->report.steps(static_cast<int>(step));
    EXPECT_EQ(got.step(), static_cast<int64_t>(step));
    EXPECT_NEAR(got.loss(), golden_.losses[step], double_precision ? 1e-9 : 1e-5) << "step " << step;
  }
  ASSERT_EQ(result->weights.size(), golden_.final.size());
  for (int i = 0; i < program->tensors_size(); ++i) {
    const std::string& name = program->tensors(i).name();
    ASSERT_TRUE(golden_.final.contains(name)) << name;
    if (!double_precision) continue;
    EXPECT_LE(RelativeDistance(name, Doubles(result->weights[i]), golden_.final.at(name), {}), 1e-4) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, PipeDreamGoldenTest,
                         testing::Values(Setting{"pipedream", 2, FP64}, Setting{"pipedream", 4, FP64},
                                         Setting{"pipedream-2bw", 2, FP64}, Setting{"pipedream-2bw", 4, FP64},
                                         Setting{"pipedream", 2, FP32}, Setting{"pipedream", 4, FP32},
                                         Setting{"pipedream-2bw", 4, FP32}, Setting{"pipedream", 2, FP64, 2},
                                         Setting{"pipedream-2bw", 2, FP64, 2}));

}  // namespace
}  // namespace weft
