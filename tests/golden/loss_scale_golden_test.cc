// Compares the loss scale, the skipped steps and the resulting weights with PyTorch's GradScaler
// (make_loss_scale_golden.py). The kernels at the end of a step run on the same gradients that GradScaler saw.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "executor/backends/cpu/cpu.h"
#include "executor/interface/backend.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/io/json_value.h"

namespace weft {
namespace {

// In the file, null means infinity.
std::vector<double> Numbers(const JsonValue& list) {
  std::vector<double> numbers;
  for (const JsonValue& element : list.elements) {
    numbers.push_back(element.Double().value_or(std::numeric_limits<double>::infinity()));
  }
  return numbers;
}

std::vector<float> Floats(const JsonValue& list) {
  const std::vector<double> numbers = Numbers(list);
  return {numbers.begin(), numbers.end()};
}

Step MakeStep(Kernel kernel) {
  Step step;
  step.set_name(Kernel_Name(kernel));
  step.set_kernel(kernel);
  return step;
}

TEST(LossScaleGoldenTest, TheScaleAndTheWeightsOfGradScaler) {
  const auto text = ReadFile("tests/golden/loss_scale/golden.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = ParseJson(*text, "golden.json");
  ASSERT_TRUE(json.ok()) << json.status();
  const auto number = [&](const char* name) { return json->Find(name)->Double().value(); };
  const std::vector<double> scales = Numbers(*json->Find("scales")), skipped = Numbers(*json->Find("skipped"));

  const std::vector<int64_t> width = {8}, one = {1}, two = {2}, three = {3};
  alignas(64) float gradient[8], weight[8], moment1[8] = {}, moment2[8] = {};
  alignas(64) double norms[1], norm[2], scale[3] = {number("initial_scale"), 0, 0};
  const std::vector<float> initial = Floats(*json->Find("initial_weight"));
  std::copy(initial.begin(), initial.end(), weight);
  const exec::TensorView g{gradient, FP32, width}, w{weight, FP32, width}, m{moment1, FP32, width},
      v{moment2, FP32, width};
  const exec::TensorView squares{norms, FP64, one}, total{norm, FP64, two}, state{scale, FP64, three};

  Step adamw = MakeStep(ADAMW), update = MakeStep(UPDATE_LOSS_SCALE);
  adamw.mutable_attributes()->set_beta1(number("beta1"));
  adamw.mutable_attributes()->set_beta2(number("beta2"));
  adamw.mutable_attributes()->set_epsilon(number("epsilon"));
  adamw.mutable_attributes()->set_weight_decay(number("weight_decay"));
  update.mutable_attributes()->set_growth_interval(static_cast<int>(number("growth_interval")));
  const std::unique_ptr<exec::Backend> backend = exec::MakeCpuBackend(1);
  exec::StepContext context;
  context.learning_rate = number("learning_rate");
  double skips = 0;
  ASSERT_EQ(scales.size(), 24u);
  for (size_t i = 0; i < scales.size(); ++i) {
    EXPECT_EQ(scale[0], scales[i]) << "step " << i;
    EXPECT_EQ(scale[2], skips) << "step " << i;
    const std::vector<float> scaled = Floats(json->Find("scaled_gradients")->elements[i]);
    std::copy(scaled.begin(), scaled.end(), gradient);
    context.step = static_cast<int64_t>(i);
    ASSERT_TRUE(backend->Run(MakeStep(SQUARED_NORM), {g}, {squares}, context).ok());
    ASSERT_TRUE(backend->Run(MakeStep(NORM_TOTAL), {squares, state}, {total}, context).ok());
    ASSERT_TRUE(backend->Run(adamw, {g, w, m, v, total, state}, {w, m, v}, context).ok());
    ASSERT_TRUE(backend->Run(update, {total, state}, {state}, context).ok());
    EXPECT_EQ(norm[1] == 0, skipped[i] != 0) << "step " << i;
    skips += skipped[i];
  }
  EXPECT_EQ(scale[0], number("final_scale"));
  EXPECT_EQ(skips, 7);
  const std::vector<double> final = Numbers(*json->Find("final_weight"));
  for (size_t i = 0; i < final.size(); ++i) EXPECT_NEAR(weight[i], final[i], 2e-6 * std::abs(final[i]) + 1e-7) << i;
}

}  // namespace
}  // namespace weft
