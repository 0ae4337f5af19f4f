// Tests runs of several steps as one launch. A run gives the same bits as its steps one by one, for tensors of all
// sizes. Steps that cannot be one launch are refused.
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/backends/cuda/conformance/machine.h"
#include "executor/backends/cuda/conformance/placed_tensors.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;

// Steps of one kernel. Each step has its own tensors, but all steps share the inputs and the output that ExpectSame
// gets.
class RunOfSteps {
 public:
  explicit RunOfSteps(Kernel kernel) : kernel_(kernel) {}

  struct Own {
    Step step;
    std::vector<Tensor> in, out;
    // {i, j}: output i shares the memory of input j.
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

  // Runs the steps as one launch or one by one, and returns the bytes of all tensors afterwards.
  std::vector<std::vector<unsigned char>> Results(bool as_run, Tensor* shared_out, const std::vector<Tensor>& shared_in,
                                                  const StepContext& context) {
    StepContext at = context;
    at.stream = TheStream();
    Backend& backend = *TheMachine().backend;
    PlacedTensors placed;
    const auto view = [&](Tensor& tensor) {
      const auto place = placed.Place(tensor);
      EXPECT_TRUE(place.ok()) << place.status();
      return place.ok() ? *place : tensor.view();
    };
    std::list<Own> steps = steps_;
    std::vector<Tensor> given = shared_in;
    std::vector<TensorView> given_views;
    for (Tensor& tensor : given) given_views.push_back(view(tensor));
    const TensorView shared_view = shared_out != nullptr ? view(*shared_out) : TensorView();
    std::list<std::vector<TensorView>> views;
    std::vector<StepOfRun> run;
    for (Own& own : steps) {
      std::vector<TensorView>& in = views.emplace_back();
      std::vector<TensorView> own_in;
      for (Tensor& tensor : own.in) own_in.push_back(view(tensor));
      if (kernel_ == SCALE) in.push_back(given_views[0]);
      in.insert(in.end(), own_in.begin(), own_in.end());
      if (kernel_ != SCALE) in.insert(in.end(), given_views.begin(), given_views.end());
      std::vector<TensorView>& out = views.emplace_back();
      for (Tensor& tensor : own.out) out.push_back(view(tensor));
      for (const auto& [to, from] : own.in_place) out[to].data = own_in[from].data;
      if (shared_out != nullptr) out.push_back(shared_view);
      run.push_back({&own.step, in, out, own.first_element, own.writes_norm});
    }
    if (as_run) {
      const auto prepared = backend.PrepareRun(run);
      EXPECT_TRUE(prepared.ok() && *prepared != nullptr) << prepared.status();
      if (!prepared.ok() || *prepared == nullptr) return {};
      const absl::Status status = (*prepared)->Run(at);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(placed.Fetch().ok());
    } else {
      for (const StepOfRun& step : run) {
        at.first_element = step.first_element;
        at.writes_norm = step.writes_norm;
        const absl::Status status = backend.Run(*step.step, step.inputs, step.outputs, at);
        EXPECT_TRUE(status.ok()) << status;
      }
      EXPECT_TRUE(placed.Fetch().ok());
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

// Numbers of elements: less than a block's share, none, more than one tile, and whole tiles.
const std::vector<int64_t> kSizes = {7, 0, 5000, 1, 2048, 768, 0, 4096, 33};

StepContext AtStep() {
  StepContext context;
  context.step = 6;
  context.seed = 99;
  context.learning_rate = 0.01;
  return context;
}

RunOfSteps AdamWSteps(bool stochastic, DType moments = FP32) {
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
    own.in = {Numbers(stochastic ? BF16 : FP32, n, 0.3), Numbers(FP32, n, 1), Numbers(moments, n, 0.1),
              Positive(moments, n)};
    own.out = {Tensor(FP32, {n}), Tensor(moments, {n}), Tensor(moments, {n}), Tensor(BF16, {n})};
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
    AdamWSteps(stochastic, BF16).ExpectSame({norm}, nullptr, AtStep());
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

// A copy keeps all bits, even those of a NaN.
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

// A run of norms also gives the same bits as its steps if all tensors have one type.
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
  Tensor a = Numbers(FP32, 8, 1), b = Numbers(FP32, 8, 1), x(FP32, {8}), y(FP32, {8}), half(BF16, {8});
  PlacedTensors placed;
  const std::vector<TensorView> in_a = {*placed.Place(a)}, in_b = {*placed.Place(b)}, out_x = {*placed.Place(x)},
                                out_y = {*placed.Place(y)}, out_half = {*placed.Place(half)};
  Step cast, zero, one;
  cast.set_kernel(CAST);
  zero.set_kernel(FILL);
  one.set_kernel(FILL);
  one.mutable_attributes()->set_value(1);
  const auto is_run = [&](std::vector<StepOfRun> steps) {
    const auto run = TheMachine().backend->PrepareRun(steps);
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
}  // namespace weft::exec::cuda
