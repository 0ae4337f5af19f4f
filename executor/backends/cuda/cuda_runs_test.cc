// Runs of steps as one launch: the bits of the steps one by one, for tensors of all sizes; and which steps are none.
#include <list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu_test_util.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "executor/device.h"
#include "gtest/gtest.h"
#include "proto/step_runs.h"

namespace weft::cuda {
namespace {

using cpu::Tensor;

// Steps of one kernel with tensors of their own; `norm`, `scale` and `norms` are shared.
class RunOfSteps {
 public:
  explicit RunOfSteps(Kernel kernel) : kernel_(kernel) {}

  struct Own {
    Step step;
    std::vector<Tensor> in, out;
    // {i, j}: output i is input j.
    std::vector<std::pair<int, int>> in_place;
    int64_t first_element = 0;
    bool writes_norm = true;
  };

  Own& Add() {
    Own& own = steps_.emplace_back();
    own.step.set_kernel(kernel_);
    own.step.set_name(absl::StrCat("step ", steps_.size()));
    return own;
  }
  std::list<Own>& steps() { return steps_; }

  // All tensors behind the steps; as a run, or one by one.
  std::vector<std::vector<unsigned char>> Results(bool as_run, Tensor* shared_out, const std::vector<Tensor>& shared_in,
                                                  const StepContext& context) {
    const std::unique_ptr<ComputeDevice> device = MakeHostDevice();
    StepContext at = context;
    at.stream = device->NewStream(ComputeDevice::Priority::kNormal).value();
    auto backend = MakeBackend(device.get(), EmulatedLibraries(), {});
    EXPECT_TRUE(backend.ok()) << backend.status();
    std::list<Own> steps = steps_;
    std::vector<Tensor> given = shared_in;
    std::list<std::vector<TensorView>> views;
    std::vector<StepOfRun> run;
    for (Own& own : steps) {
      std::vector<TensorView>& in = views.emplace_back();
      if (kernel_ == SCALE) in.push_back(given[0].view());
      for (Tensor& tensor : own.in) in.push_back(tensor.view());
      if (kernel_ != SCALE) {
        for (Tensor& tensor : given) in.push_back(tensor.view());
      }
      std::vector<TensorView>& out = views.emplace_back();
      for (Tensor& tensor : own.out) out.push_back(tensor.view());
      for (const auto& [to, from] : own.in_place) out[to].data = own.in[from].view().data;
      if (shared_out != nullptr) out.push_back(shared_out->view());
      run.push_back({&own.step, in, out, own.first_element, own.writes_norm});
    }
    if (as_run) {
      const auto prepared = (*backend)->PrepareRun(run);
      EXPECT_TRUE(prepared.ok()) << prepared.status();
      EXPECT_NE(*prepared, nullptr);
      if (*prepared == nullptr) return {};
      const absl::Status status = (*prepared)->Run(at);
      EXPECT_TRUE(status.ok()) << status;
    } else {
      for (const StepOfRun& step : run) {
        at.first_element = step.first_element;
        at.writes_norm = step.writes_norm;
        const absl::Status status = (*backend)->Run(*step.step, step.inputs, step.outputs, at);
        EXPECT_TRUE(status.ok()) << status;
      }
    }
    std::vector<std::vector<unsigned char>> bytes;
    for (const Own& own : steps) {
      for (const auto* side : {&own.in, &own.out}) {
        for (const Tensor& tensor : *side) bytes.push_back(tensor.bytes());
      }
    }
    if (shared_out != nullptr) bytes.push_back(shared_out->bytes());
    return bytes;
  }

  void ExpectSame(const std::vector<Tensor>& shared_in = {}, const Tensor* shared_out = nullptr,
                  const StepContext& context = {}) {
    std::vector<std::vector<unsigned char>> results[2];
    for (const bool as_run : {false, true}) {
      Tensor out = shared_out != nullptr ? *shared_out : Tensor(FP64, {1});
      results[as_run] = Results(as_run, shared_out != nullptr ? &out : nullptr, shared_in, context);
    }
    EXPECT_TRUE(results[0] == results[1]) << Kernel_Name(kernel_);
  }

 private:
  const Kernel kernel_;
  std::list<Own> steps_;
};

Tensor Numbers(DType dtype, int64_t n, double scale) {
  Tensor tensor(dtype, {n});
  for (int64_t i = 0; i < n; ++i) tensor.Set(i, scale * static_cast<double>((i * 37 + n) % 101 - 50) / 50);
  return tensor;
}
Tensor Positive(DType dtype, int64_t n) {
  Tensor tensor(dtype, {n});
  for (int64_t i = 0; i < n; ++i) tensor.Set(i, 0.01 + static_cast<double>((i * 13 + n) % 97) / 97);
  return tensor;
}

// Less than a block's share, none at all, more than one tile, whole tiles.
const std::vector<int64_t> kSizes = {7, 0, 5000, 1, 2048, 768, 0, 4096, 33};

StepContext AtStep() {
  StepContext context;
  context.step = 6;
  context.seed = 99;
  context.learning_rate = 0.01;
  return context;
}

RunOfSteps AdamWSteps(bool stochastic) {
  RunOfSteps run(ADAMW);
  uint32_t tensor = 0;
  for (const int64_t n : kSizes) {
    auto& own = run.Add();
    StepAttributes* a = own.step.mutable_attributes();
    a->set_beta1(0.9);
    a->set_beta2(0.95);
    a->set_epsilon(1e-8);
    a->set_weight_decay(n > 1000 ? 0.1 : 0);
    if (stochastic) a->set_rounding_site(++tensor);
    own.first_element = stochastic ? n * 3 : 0;
    own.in = {Numbers(stochastic ? BF16 : FP32, n, 0.3), Numbers(FP32, n, 1), Numbers(FP32, n, 0.1), Positive(FP32, n)};
    own.out = {Tensor(FP32, {n}), Tensor(FP32, {n}), Tensor(FP32, {n}), Tensor(BF16, {n})};
    own.in_place = {{0, 1}, {1, 2}, {2, 3}};
  }
  return run;
}

TEST(CudaRunsTest, AdamW) {
  Tensor norm(FP64, {2}), scale(FP64, {3});
  for (int i = 0; i < 2; ++i) norm.Set(i, 0.7);
  scale.Set(0, 1024);
  scale.Set(2, 1);
  for (const bool stochastic : {false, true}) {
    AdamWSteps(stochastic).ExpectSame({}, nullptr, AtStep());
    AdamWSteps(stochastic).ExpectSame({norm}, nullptr, AtStep());
    AdamWSteps(stochastic).ExpectSame({norm, scale}, nullptr, AtStep());
  }
  norm.Set(1, 0);
  AdamWSteps(true).ExpectSame({norm, scale}, nullptr, AtStep());
}

TEST(CudaRunsTest, Sgd) {
  for (const bool momentum : {false, true}) {
    RunOfSteps run(SGD_STEP);
    for (const int64_t n : kSizes) {
      auto& own = run.Add();
      own.step.mutable_attributes()->set_momentum(momentum ? 0.9 : 0);
      own.step.mutable_attributes()->set_weight_decay(n > 1000 ? 0.1 : 0);
      own.in = {Numbers(FP16, n, 0.3), Numbers(FP32, n, 1)};
      if (momentum) own.in.push_back(Numbers(FP32, n, 0.1));
      for (size_t i = 1; i < own.in.size(); ++i) own.out.emplace_back(FP32, std::vector<int64_t>{n});
      own.out.emplace_back(FP16, std::vector<int64_t>{n});
    }
    run.ExpectSame({}, nullptr, AtStep());
  }
}

TEST(CudaRunsTest, Norms) {
  for (const DType sums : {FP64, EXACT192}) {
    RunOfSteps run(SQUARED_NORM);
    int slot = 0;
    for (const int64_t n : {int64_t{7}, int64_t{0}, int64_t{20000}, int64_t{8192}, int64_t{33}}) {
      auto& own = run.Add();
      own.step.mutable_attributes()->set_slot(slot++);
      own.writes_norm = n != 33;
      own.in = {Numbers(n % 2 == 0 ? FP32 : BF16, n, 3)};
    }
    const Tensor norms(sums, {slot});
    run.ExpectSame({}, &norms);
  }
}

TEST(CudaRunsTest, ScalesCastsAndConstants) {
  Tensor norm(FP64, {2});
  norm.Set(1, 0.37);
  RunOfSteps scales(SCALE), in_place(SCALE), casts(CAST), constants(FILL);
  for (const int64_t n : kSizes) {
    auto& scale = scales.Add();
    scale.in = {Numbers(FP32, n, 1)};
    scale.out = {Tensor(BF16, {n})};
    auto& same = in_place.Add();
    same.in = {Numbers(FP32, n, 1)};
    same.out = {Tensor(FP32, {n})};
    same.in_place = {{0, 0}};
    auto& cast = casts.Add();
    cast.in = {Numbers(FP32, n, 1)};
    cast.out = {Tensor(n % 2 == 0 ? BF16 : FP16, {n})};
    auto& constant = constants.Add();
    constant.step.mutable_attributes()->set_value(0.1);
    constant.out = {Tensor(n % 2 == 0 ? BF16 : FP32, {n})};
  }
  scales.ExpectSame({norm});
  in_place.ExpectSame({norm});
  casts.ExpectSame();
  constants.ExpectSame();
}

// All bits, those of a NaN too.
TEST(CudaRunsTest, Copies) {
  for (const DType type : {FP64, FP32, BF16, FP16}) {
    RunOfSteps run(CAST);
    for (const int64_t n : kSizes) {
      auto& own = run.Add();
      Tensor bits(type, {n});
      for (size_t i = 0; i < bits.bytes().size(); ++i) {
        static_cast<unsigned char*>(bits.view().data)[i] = static_cast<unsigned char>(255 - i % 7 * 40);
      }
      own.in = {bits};
      own.out = {Tensor(type, {n})};
    }
    run.ExpectSame();
  }
}

TEST(CudaRunsTest, ExactAccumulators) {
  RunOfSteps terms(EXACT_ACCUMULATE), zeros(FILL), ones(FILL);
  for (const int64_t n : kSizes) {
    auto& term = terms.Add();
    term.in = {Numbers(FP32, n, 3)};
    term.out = {Tensor(EXACT192, {n})};
    for (RunOfSteps* const constants : {&zeros, &ones}) {
      auto& constant = constants->Add();
      constant.step.mutable_attributes()->set_value(constants == &ones ? 1 : 0);
      constant.out = {Tensor(EXACT192, {n})};
    }
  }
  terms.ExpectSame();
  zeros.ExpectSame();
  ones.ExpectSame();
  for (const DType type : {FP64, FP32, BF16, FP16}) {
    RunOfSteps rounds(EXACT_ROUND);
    for (const int64_t n : kSizes) {
      auto& round = rounds.Add();
      Tensor sums(EXACT192, {n});
      auto* const limbs = static_cast<uint64_t*>(sums.view().data);
      for (int64_t i = 0; i < n; ++i) {
        limbs[3 * i] = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u;
        limbs[3 * i + 1] = i % 3 == 0 ? ~uint64_t{0} : static_cast<uint64_t>(i) << 50;
        limbs[3 * i + 2] = i % 3 == 0 ? ~uint64_t{0} : 0;
      }
      round.in = {sums};
      round.out = {Tensor(type, {n})};
    }
    rounds.ExpectSame();
  }
}

// A norm and the ADD beside it, as one launch and one after the other.
class NormWithSumTest : public testing::TestWithParam<Kernel> {};

Tensor Matrix(DType dtype, int64_t rows, int64_t columns, int64_t seed) {
  Tensor tensor(dtype, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) tensor.Set(i, static_cast<double>((i * 7919 + seed * 131) % 1999) / 999);
  return tensor;
}

// What all tensors are behind `steps`, of which each has inputs and outputs by number.
struct NumberedStep {
  Step step;
  std::vector<int> in, out;
};
std::vector<std::vector<unsigned char>> Behind(const std::vector<NumberedStep>& steps, std::vector<Tensor> tensors,
                                               bool as_run) {
  const std::unique_ptr<ComputeDevice> device = MakeHostDevice();
  StepContext context;
  context.stream = device->NewStream(ComputeDevice::Priority::kNormal).value();
  auto backend = MakeBackend(device.get(), EmulatedLibraries(), {});
  EXPECT_TRUE(backend.ok()) << backend.status();
  std::list<std::vector<TensorView>> views;
  std::vector<StepOfRun> run;
  for (const NumberedStep& step : steps) {
    std::vector<TensorView>&in = views.emplace_back(), &out = views.emplace_back();
    for (const int i : step.in) in.push_back(tensors[i].view());
    for (const int i : step.out) out.push_back(tensors[i].view());
    run.push_back({&step.step, in, out});
  }
  if (as_run) {
    const auto prepared = (*backend)->PrepareRun(run);
    EXPECT_TRUE(prepared.ok() && *prepared != nullptr) << prepared.status();
    if (!prepared.ok() || *prepared == nullptr) return {};
    EXPECT_TRUE((*prepared)->Run(context).ok());
  } else {
    for (const StepOfRun& step : run) EXPECT_TRUE((*backend)->Run(*step.step, step.inputs, step.outputs, context).ok());
  }
  std::vector<std::vector<unsigned char>> bytes;
  for (const Tensor& tensor : tensors) bytes.push_back(tensor.bytes());
  return bytes;
}

void ExpectSameBehind(const std::vector<NumberedStep>& steps, const std::vector<Tensor>& tensors) {
  EXPECT_TRUE(Behind(steps, tensors, false) == Behind(steps, tensors, true));
}

// Rows in a warp's registers, in a block's, with four eights a thread, and read again; and odd ones.
const std::vector<int64_t> kColumns = {8, 33, 512, 768, 1000, 4096, 9000, 16392};

TEST_P(NormWithSumTest, IsTheTwoOneAfterTheOther) {
  const Kernel kernel = GetParam();
  const bool centred = kernel == LAYER_NORM || kernel == LAYER_NORM_BACKWARD;
  const bool forward = kernel == LAYER_NORM || kernel == RMS_NORM;
  for (const int64_t columns : kColumns) {
    for (const DType type : {BF16, FP16, FP32, FP64}) {
      // Sums may be of another type than what they are of.
      for (const DType of_sum : {type, type == BF16 ? FP32 : type}) {
        SCOPED_TRACE(absl::StrCat(Kernel_Name(kernel), " ", columns, " ", DType_Name(type), " ", DType_Name(of_sum)));
        const int64_t rows = columns > 8000 ? 2 : 11;
        const DType statistic = type == FP64 ? FP64 : FP32;
        NumberedStep sum, norm;
        sum.step.set_kernel(ADD);
        norm.step.set_kernel(kernel);
        norm.step.mutable_attributes()->set_epsilon(1e-5);
        std::vector<Tensor> tensors;
        for (int i = 0; i < 6; ++i) tensors.push_back(Matrix(i == 2 ? of_sum : type, rows, columns, i));
        const int gamma = 6, beta = 7, mean = 8, rstd = 9;
        for (int i = 0; i < 2; ++i) tensors.push_back(Matrix(type, 1, columns, 6 + i));
        for (int i = 0; i < 2; ++i) tensors.push_back(Matrix(statistic, 1, rows, 8 + i));
        if (forward) {
          sum.in = {0, 1};
          sum.out = {2};
          norm.in = centred ? std::vector<int>{2, gamma, beta} : std::vector<int>{2, gamma};
          norm.out = centred ? std::vector<int>{3, mean, rstd} : std::vector<int>{3, rstd};
          ExpectSameBehind({sum, norm}, tensors);
          // The result in the place of a term, and the sum in that of the other.
          norm.out[0] = 1;
          if (of_sum == type) sum.out[0] = norm.in[0] = 0;
          ExpectSameBehind({sum, norm}, tensors);
        } else {
          norm.in = centred ? std::vector<int>{0, 1, gamma, mean, rstd} : std::vector<int>{0, 1, gamma, rstd};
          norm.out = {2};
          for (const bool first : {false, true}) {
            sum.in = first ? std::vector<int>{2, 3} : std::vector<int>{3, 2};
            sum.out = {first ? 4 : 3};
            ExpectSameBehind({norm, sum}, tensors);
          }
          // In the place of what the norm has read.
          sum.out = {0};
          ExpectSameBehind({norm, sum}, tensors);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, NormWithSumTest,
                         testing::Values(LAYER_NORM, RMS_NORM, LAYER_NORM_BACKWARD, RMS_NORM_BACKWARD),
                         [](const auto& info) { return Kernel_Name(info.param); });

// What sums over rows make goes with what makes the rows.
class WithSumsTest : public testing::TestWithParam<DType> {};

// Of one turn's rows, of several turns and of several chunks; rows of whole eights and not.
TEST_P(WithSumsTest, ABackwardOfANormIsItsStepsOneAfterTheOther) {
  const DType type = GetParam();
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5, 1600}, {19, 1032}, {40, 1029}, {9, 8192}}) {
    for (const bool centred : {false, true}) {
      const bool accumulate = centred == (rows % 2 == 0);
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns, " ", centred, accumulate));
      std::vector<Tensor> tensors;
      const auto add = [&](Tensor tensor) {
        tensors.push_back(std::move(tensor));
        return static_cast<int>(tensors.size()) - 1;
      };
      const int dy = add(Matrix(type, rows, columns, 1)), x = add(Matrix(type, rows, columns, 2)),
                dx = add(Matrix(type, rows, columns, 3)), residual = add(Matrix(type, rows, columns, 4)),
                sum_of = add(Matrix(type, rows, columns, 5)), gamma = add(Matrix(type, 1, columns, 6)),
                mean = add(Matrix(FP32, 1, rows, 7)), rstd = add(Matrix(FP32, 1, rows, 8)),
                dgamma = add(Matrix(FP32, 1, columns, 9)), dbeta = add(Matrix(FP32, 1, columns, 10)),
                dbias = add(Matrix(FP32, 1, columns, 11));
      NumberedStep norm, weights, sum, bias;
      norm.step.set_kernel(centred ? LAYER_NORM_BACKWARD : RMS_NORM_BACKWARD);
      norm.in = centred ? std::vector<int>{dy, x, gamma, mean, rstd} : std::vector<int>{dy, x, gamma, rstd};
      norm.out = {dx};
      weights.step.set_kernel(centred ? LAYER_NORM_BACKWARD_WEIGHT : RMS_NORM_BACKWARD_WEIGHT);
      weights.step.set_accumulate(accumulate);
      weights.in = centred ? std::vector<int>{dy, x, mean, rstd} : std::vector<int>{dy, x, rstd};
      weights.out = centred ? std::vector<int>{dgamma, dbeta} : std::vector<int>{dgamma};
      sum.step.set_kernel(ADD);
      sum.in = {residual, dx};
      sum.out = {sum_of};
      bias.step.set_kernel(BIAS_GRADIENT);
      bias.step.set_accumulate(!accumulate);
      bias.in = {sum_of};
      bias.out = {dbias};
      ExpectSameBehind({norm, weights, sum}, tensors);
      ExpectSameBehind({norm, weights, sum, bias}, tensors);
      // In the place of what the norm and the sums over rows have read.
      sum.out = bias.in = {rows == 5 ? dy : rows == 19 ? x : residual};
      ExpectSameBehind({norm, weights, sum, bias}, tensors);
    }
  }
}

TEST_P(WithSumsTest, AnActivationAndTheBiasBeforeItAreTheTwo) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 8}, {77, 600}, {300, 33}, {1, 1}}) {
    for (const bool approximation : {false, true}) {
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns, " ", approximation));
      std::vector<Tensor> tensors;
      for (int i = 0; i < 3; ++i) tensors.push_back(Matrix(GetParam(), rows, columns, i));
      tensors.push_back(Matrix(FP32, 1, columns, 9));
      NumberedStep gelu, bias;
      gelu.step.set_kernel(GELU_BACKWARD);
      gelu.step.mutable_attributes()->set_tanh_approximation(approximation);
      gelu.in = {0, 1};
      gelu.out = bias.in = {2};
      bias.step.set_kernel(BIAS_GRADIENT);
      bias.step.set_accumulate(approximation);
      bias.out = {3};
      ExpectSameBehind({gelu, bias}, tensors);
      for (const int place : {0, 1}) {
        gelu.out = bias.in = {place};
        ExpectSameBehind({gelu, bias}, tensors);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, WithSumsTest, testing::Values(BF16, FP16, FP32),
                         [](const auto& info) { return DType_Name(info.param); });

// Which norms have sums is a rule of programs (proto/step_runs.h), and here it is what the kernels have room for.
TEST(CudaRunsTest, NormsThatHaveSums) {
  Step backward, weights, add;
  backward.set_kernel(RMS_NORM_BACKWARD);
  weights.set_kernel(RMS_NORM_BACKWARD_WEIGHT);
  add.set_kernel(ADD);
  for (Step* const step : {&backward, &weights, &add}) step->set_stream(COMPUTE);
  float anything = 0;
  NormBackward norm;
  norm.sum = {&anything, Type::kFp32};
  norm.rows = 4;
  std::set<bool> seen;
  for (const int64_t columns : {8, 1024, 1025, 1032, 8192, 8193, 8200, 20000}) {
    norm.columns = columns;
    uint64_t next = 0;
    const auto tensor = [&](int64_t elements) {
      const uint64_t begin = next;
      next += static_cast<uint64_t>(4 * elements);
      return StepTouch{begin, next, FP32};
    };
    const StepTouch dy = tensor(4 * columns), x = tensor(4 * columns), dx = tensor(4 * columns),
                    residual = tensor(4 * columns), gamma = tensor(columns), dgamma = tensor(columns), rstd = tensor(4);
    const std::vector<PlacedStep> steps = {{&backward, {dy, x, gamma, rstd}, {dx}},
                                           {&weights, {dy, x, rstd}, {dgamma}},
                                           {&add, {residual, dx}, {residual}}};
    const std::vector<StepRange> ranges = FindNormRuns(steps);
    ASSERT_EQ(ranges.size(), 1u);
    EXPECT_EQ(ranges[0].launches.size() == 1, HasSums(norm)) << columns;
    seen.insert(HasSums(norm));
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(CudaRunsTest, NormsThatAreNotWithTheirSum) {
  NumberedStep sum, norm;
  sum.step.set_kernel(ADD);
  sum.in = {0, 1};
  sum.out = {2};
  norm.step.set_kernel(RMS_NORM);
  norm.in = {2, 3};
  norm.out = {4, 5};
  const auto is_run = [&](const NumberedStep& first, const NumberedStep& second, DType type, DType of_gamma) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < 6; ++i) tensors.push_back(i == 3 ? Tensor(of_gamma, {8}) : Tensor(type, {i == 5 ? 4 : 4, 8}));
    tensors[5] = Tensor(FP32, {4});
    const std::unique_ptr<ComputeDevice> device = MakeHostDevice();
    auto backend = MakeBackend(device.get(), EmulatedLibraries(), {});
    EXPECT_TRUE(backend.ok());
    std::list<std::vector<TensorView>> views;
    std::vector<StepOfRun> run;
    for (const NumberedStep* step : {&first, &second}) {
      std::vector<TensorView>&in = views.emplace_back(), &out = views.emplace_back();
      for (const int i : step->in) in.push_back(tensors[i].view());
      for (const int i : step->out) out.push_back(tensors[i].view());
      run.push_back({&step->step, in, out});
    }
    const auto prepared = (*backend)->PrepareRun(run);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() && *prepared != nullptr;
  };
  EXPECT_TRUE(is_run(sum, norm, FP32, FP32));
  // The norm computes in double, its sum does not.
  EXPECT_FALSE(is_run(sum, norm, FP32, FP64));
  NumberedStep of_another = norm;
  of_another.in[0] = 1;
  EXPECT_FALSE(is_run(sum, of_another, FP32, FP32));
  EXPECT_FALSE(is_run(sum, sum, FP32, FP32));
}

// Whose bits do not tell them apart from others.
TEST(CudaRunsTest, NormsOfOneType) {
  for (const DType type : {FP32, BF16, FP16}) {
    RunOfSteps run(SQUARED_NORM);
    int slot = 0;
    for (const int64_t n : {int64_t{7}, int64_t{70001}, int64_t{8192}, int64_t{16384}}) {
      auto& own = run.Add();
      own.step.mutable_attributes()->set_slot(slot++);
      own.in = {Numbers(type, n, 3)};
    }
    const Tensor norms(FP64, {slot});
    run.ExpectSame({}, &norms);
  }
}

TEST(CudaRunsTest, StepsThatAreNotAlikeAreRunOneByOne) {
  const std::unique_ptr<ComputeDevice> device = MakeHostDevice();
  auto backend = MakeBackend(device.get(), EmulatedLibraries(), {});
  ASSERT_TRUE(backend.ok()) << backend.status();
  Tensor a = Numbers(FP32, 8, 1), b = Numbers(FP32, 8, 1), x(FP32, {8}), y(FP32, {8}), half(BF16, {8});
  const std::vector<TensorView> in_a = {a.view()}, in_b = {b.view()}, out_x = {x.view()}, out_y = {y.view()},
                                out_half = {half.view()};
  Step cast, zero, one;
  cast.set_kernel(CAST);
  zero.set_kernel(FILL);
  one.set_kernel(FILL);
  one.mutable_attributes()->set_value(1);
  const auto is_run = [&](std::vector<StepOfRun> steps) {
    const auto run = (*backend)->PrepareRun(steps);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() && *run != nullptr;
  };
  EXPECT_TRUE(is_run({{&zero, {}, out_x}, {&zero, {}, out_y}}));
  EXPECT_FALSE(is_run({{&zero, {}, out_x}}));
  EXPECT_FALSE(is_run({{&zero, {}, out_x}, {&one, {}, out_y}}));
  EXPECT_TRUE(is_run({{&cast, in_a, out_x}, {&cast, in_b, out_y}}));
  EXPECT_FALSE(is_run({{&cast, in_a, out_half}, {&cast, in_b, out_y}}));
}

}  // namespace
}  // namespace weft::cuda
