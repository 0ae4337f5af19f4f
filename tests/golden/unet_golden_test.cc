// The whole path from a U-Net's config.json and an image file to trained weights, compared with PyTorch's numbers
// (README.md).
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

  // Trains from the golden file's initial weights.
  exec::RunResult Train(const Recipe& recipe, Program* program) const {
    absl::StatusOr<Program> compiled = CompileGolden(Folder(), recipe, Plan());
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    if (!compiled.ok()) return {};
    *program = *std::move(compiled);
    const auto data = exec::OpenData(exec::DataOptionsOf(*program, absl::StrCat(Folder(), "/images.img")));
    EXPECT_TRUE(data.ok()) << data.status();
    if (!data.ok()) return {};
    exec::RunOptions options;
    options.weights = absl::StrCat(Folder(), "/initial.safetensors");
    options.collect_weights = true;
    absl::StatusOr<exec::RunResult> result = exec::RunInProcess(*program, **data, options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : exec::RunResult();
  }

  Golden golden_;
};

using UnetGradientTest = UnetGoldenTest;
using UnetTrainingTest = UnetGoldenTest;

TEST_P(UnetGradientTest, Gradients) {
  Program program;
  const exec::RunResult result = Train(GoldenRecipe(golden_, Plan(), true), &program);
  ExpectGradients(golden_, program, result);
}

TEST_P(UnetTrainingTest, LossesAndWeights) {
  Program program;
  const exec::RunResult result = Train(GoldenRecipe(golden_, Plan(), false), &program);
  const auto distance = [](double got, double expected) { return std::abs(got / expected - 1); };
  ExpectTraining(golden_, Plan().dtype, distance, program, result);
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
