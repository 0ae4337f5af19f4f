// The whole way from a U-Net's config.json and an image file to trained weights against PyTorch's numbers (README.md).
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_run.h"

namespace weft {
namespace {

class UnetGoldenTest : public testing::TestWithParam<std::tuple<const char*, GoldenPlan>> {
 protected:
  void SetUp() override {
    absl::StatusOr<Golden> golden = LoadGolden(Folder());
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = *std::move(golden);
  }

  static std::string Folder() { return absl::StrCat("tests/golden/", std::get<0>(GetParam())); }
  static const GoldenPlan& Plan() { return std::get<1>(GetParam()); }

  // From the golden file's initial weights.
  RunResult Train(const Recipe& recipe, Program* program) const {
    absl::StatusOr<Program> compiled = CompileGolden(Folder(), recipe, Plan());
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    if (!compiled.ok()) return {};
    *program = *std::move(compiled);
    const auto data = OpenData(DataOptionsOf(*program, absl::StrCat(Folder(), "/images.img")));
    EXPECT_TRUE(data.ok()) << data.status();
    if (!data.ok()) return {};
    RunOptions options;
    options.weights = absl::StrCat(Folder(), "/initial.safetensors");
    options.collect_weights = true;
    absl::StatusOr<RunResult> result = RunInProcess(*program, **data, options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : RunResult();
  }

  Golden golden_;
};

using UnetGradientTest = UnetGoldenTest;
using UnetTrainingTest = UnetGoldenTest;

// As golden_test finds gradients: weights before less weights after one step of plain SGD.
TEST_P(UnetGradientTest, Gradients) {
  Program program;
  const RunResult result = Train(GoldenRecipe(golden_, Plan(), true), &program);
  ASSERT_EQ(result.report.steps_size(), 1);
  EXPECT_NEAR(result.report.steps(0).loss(), golden_.numbers.at("loss_fp64"), 1e-12);
  EXPECT_NEAR(result.report.steps(0).grad_norm(), golden_.grad_norms_fp64[0], 1e-10);
  ASSERT_EQ(result.weights.size(), golden_.gradients.size());
  for (int i = 0; i < program.tensors_size(); ++i) {
    const std::string& name = program.tensors(i).name();
    ASSERT_TRUE(golden_.gradients.contains(name)) << name;
    const std::vector<double>& before = golden_.initial.at(name);
    std::vector<double> gradient = Doubles(result.weights[i]);
    ASSERT_EQ(gradient.size(), before.size()) << name;
    for (size_t e = 0; e < gradient.size(); ++e) gradient[e] = before[e] - gradient[e];
    EXPECT_LE(RelativeDistance(name, gradient, golden_.gradients.at(name), golden_.zero_gradients), 1e-10) << name;
  }
}

TEST_P(UnetTrainingTest, LossesAndWeights) {
  Program program;
  const RunResult result = Train(GoldenRecipe(golden_, Plan(), false), &program);
  const bool double_precision = Plan().dtype == FP64;
  const std::vector<double>& losses = double_precision ? golden_.losses_fp64 : golden_.losses_fp32;
  const std::vector<double>& norms = double_precision ? golden_.grad_norms_fp64 : golden_.grad_norms_fp32;
  ASSERT_GE(losses.size(), 20u);
  ASSERT_EQ(result.report.steps_size(), static_cast<int>(losses.size()));
  for (size_t step = 0; step < losses.size(); ++step) {
    const double loss = result.report.steps(static_cast<int>(step)).loss();
    EXPECT_LE(std::abs(loss / losses[step] - 1), double_precision ? 1e-9 : 1e-5) << "step " << step;
    const double norm = result.report.steps(static_cast<int>(step)).grad_norm();
    EXPECT_LE(std::abs(norm / norms[step] - 1), double_precision ? 1e-8 : 1e-4) << "step " << step;
  }
  ASSERT_EQ(result.weights.size(), golden_.final.size());
  for (int i = 0; i < program.tensors_size(); ++i) {
    const std::string& name = program.tensors(i).name();
    EXPECT_LE(RelativeDistance(name, Doubles(result.weights[i]), golden_.final.at(name), golden_.zero_gradients), 1e-4)
        << name;
  }
}

constexpr const char* kModels[] = {"unet_tiny", "unet_scale_shift"};

INSTANTIATE_TEST_SUITE_P(Plans, UnetGradientTest,
                         testing::Combine(testing::ValuesIn(kModels), testing::Values(GoldenPlan{FP64, 1, 4, IN_ORDER},
                                                                                      GoldenPlan{FP64, 3, 1, EXACT})));
INSTANTIATE_TEST_SUITE_P(Plans, UnetTrainingTest,
                         testing::Combine(testing::ValuesIn(kModels),
                                          testing::Values(GoldenPlan{FP32, 1, 2, IN_ORDER},
                                                          GoldenPlan{FP32, 2, 1, IN_ORDER},
                                                          GoldenPlan{FP64, 2, 2, IN_ORDER})));

}  // namespace
}  // namespace weft
