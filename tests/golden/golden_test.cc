// The whole path from config.json to trained weights, compared with PyTorch's numbers (README.md).
#include "tests/golden/golden.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/data/data.h"
#include "executor/run/run.h"
#include "executor/state/init.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_run.h"

namespace weft {
namespace {

struct Setting {
  // Name of a folder in tests/golden.
  const char* model;
  GoldenPlan plan;
};

class GoldenTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat("tests/golden/", GetParam().model);
    absl::StatusOr<Golden> golden = LoadGolden(folder_);
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = *std::move(golden);
    exec::DataOptions data;
    data.path = "tests/golden/gpt2_tiny/text.txt";
    data.sequence_length = static_cast<int64_t>(golden_.numbers.at("sequence_length"));
    data.vocabulary = 256;
    data.seed = static_cast<uint64_t>(golden_.numbers.at("seed"));
    auto opened = exec::OpenData(data);
    ASSERT_TRUE(opened.ok()) << opened.status();
    data_ = *std::move(opened);
  }

  Program CompileFor(const Recipe& recipe) const {
    absl::StatusOr<Program> program = CompileGolden(folder_, recipe, GetParam().plan);
    EXPECT_TRUE(program.ok()) << program.status();
    return program.ok() ? *std::move(program) : Program();
  }

  exec::RunResult Train(const Program& program, const std::string& weights) const {
    exec::RunOptions options;
    options.weights = weights;
    options.collect_weights = true;
    absl::StatusOr<exec::RunResult> result = exec::RunInProcess(program, *data_, options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : exec::RunResult();
  }

  std::string folder_;
  Golden golden_;
  std::unique_ptr<exec::DataSource> data_;
};

using GoldenFp64Test = GoldenTest;
using GoldenTrainingTest = GoldenTest;

TEST_P(GoldenFp64Test, Gradients) {
  const Program program = CompileFor(GoldenRecipe(golden_, GetParam().plan, true));
  ExpectGradients(golden_, program, Train(program, absl::StrCat(folder_, "/initial.safetensors")));
}

INSTANTIATE_TEST_SUITE_P(
    Plans, GoldenFp64Test,
    testing::Values(Setting{"gpt2_tiny", {FP64, 1, 8, IN_ORDER}}, Setting{"gpt2_tiny", {FP64, 2, 2, IN_ORDER}},
                    Setting{"gpt2_tiny", {FP64, 2, 1, EXACT}}, Setting{"llama_tiny", {FP64, 1, 8, IN_ORDER}},
                    Setting{"llama_tiny", {FP64, 2, 1, EXACT}}, Setting{"bert_tiny", {FP64, 1, 8, IN_ORDER}},
                    Setting{"bert_tiny", {FP64, 2, 1, EXACT}}));

TEST_P(GoldenTrainingTest, LossesAndWeights) {
  const Program program = CompileFor(GoldenRecipe(golden_, GetParam().plan, false));
  ExpectTraining(
      golden_, GetParam().plan.dtype, [](double got, double expected) { return std::abs(got - expected); }, program,
      Train(program, ""));
}

INSTANTIATE_TEST_SUITE_P(
    Plans, GoldenTrainingTest,
    testing::Values(Setting{"gpt2_tiny", {FP32, 1, 8, IN_ORDER}}, Setting{"gpt2_tiny", {FP32, 2, 2, IN_ORDER}},
                    Setting{"gpt2_tiny", {FP32, 2, 1, EXACT}}, Setting{"gpt2_tiny", {FP64, 1, 4, IN_ORDER}},
                    Setting{"llama_tiny", {FP32, 1, 8, IN_ORDER}}, Setting{"llama_tiny", {FP32, 4, 2, IN_ORDER}},
                    Setting{"llama_tiny", {FP64, 2, 4, IN_ORDER}}, Setting{"bert_tiny", {FP32, 1, 8, IN_ORDER}},
                    Setting{"bert_tiny", {FP32, 4, 2, IN_ORDER}}, Setting{"bert_tiny", {FP64, 2, 4, IN_ORDER}}));

// The initial values of the script, which computes them as docs/kernels.md describes, equal those of the C++ code. Only
// the last bits of the two libraries' logarithms and cosines may differ.
TEST(Golden, InitialValues) {
  absl::StatusOr<Golden> golden = LoadGolden("tests/golden/gpt2_tiny");
  ASSERT_TRUE(golden.ok()) << golden.status();
  LogicalTensor wte;
  wte.add_shape(256);
  wte.add_shape(32);
  wte.set_init_normal(0.02);
  std::vector<float> values(256 * 32);
  exec::InitialValues(static_cast<uint64_t>(golden->numbers.at("seed")), 0, wte, 0, absl::MakeSpan(values));
  const std::vector<double>& expected = golden->initial.at("transformer.wte.weight");
  int different = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], 1e-7 * std::abs(expected[i]));
    different += values[i] != expected[i];
  }
  EXPECT_LE(different, 3);
}

}  // namespace
}  // namespace weft
