// Cases of weight updates, with and without loss scaling, and of the update of the loss scale.
#include <algorithm>
#include <cmath>

#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

// Appends the optional inputs norm and scale, or only norm, or neither. They follow the states.
void AddScaling(CaseMaker& make, ConformanceCase& c) {
  const int64_t given = make.Between(0, 3);
  if (given == 0) return;
  Tensor norm = make.Positive(FP64, {2});
  // A second element of 0 records an overflow. The step is then skipped if the loss scale is dynamic.
  if (given == 3 && make.Coin()) norm.Set(1, 0);
  c.in.push_back(norm);
  if (given == 1) return;
  Tensor scale = make.Positive(FP64, {3});
  scale.Set(2, static_cast<double>(make.Between(0, 3)));
  c.in.push_back(scale);
}

// Turns the case into one of stochastic rounding. The weights stay unchanged and moments are multiplied by a constant,
// so the rounded results equal the CPU's bit for bit, however the backend does its arithmetic.
void RoundAtRandom(CaseMaker& make, ConformanceCase& c) {
  c.in[0] = Tensor(c.in[0].dtype(), c.in[0].shape());
  StepAttributes* a = c.step.mutable_attributes();
  a->set_weight_decay(0);
  a->set_rounding_site(static_cast<uint32_t>(make.Between(1, 5)));
  c.context.learning_rate = 0;
  c.context.seed = make.random();
  c.context.first_element = make.Coin() ? make.Between(0, 40) : (int64_t{1} << 35) - make.Between(0, 40);
  c.out.emplace_back(make.Coin() ? BF16 : FP16, c.in[0].shape());
  // Zero, infinities, numbers beyond the largest fp16 number, and subnormal fp16 numbers.
  static constexpr double kSpecial[] = {0, INFINITY, -INFINITY, 3.4e38, 65519, 65505, 5e-5, 3e-8, 1e-40, -2e-6};
  for (int64_t i = 0; i < std::min<int64_t>(c.in[1].size(), 10); ++i) {
    // The momentum of SGD adds the weights times a decay of 0. An infinite weight makes that a NaN, and NaNs have many
    // bit patterns.
    const bool usable = c.step.kernel() == ADAMW || std::isfinite(kSpecial[i]);
    if (make.Coin() && usable) c.in[1].Set(i, kSpecial[i]);
  }
  c.exact = true;
}

// Types of the states: weights and moments all in fp32, or all in the type of the case, or moments in bf16 with weights
// in fp32. Stochastic rounding runs in rounds 1, 4, 7, 10 and 13 with fp32 weights. Except in round 4 and for fp16
// cases, moments are then in bf16.
DType StateType(CaseMaker& make) { return make.dtype == FP64 ? FP64 : make.Coin() ? FP32 : make.dtype; }
DType MomentType(CaseMaker& make, DType state) {
  return state == FP32 && make.dtype != FP16 && (make.round % 4 == 2 || make.round % 6 == 1) ? BF16 : state;
}

}  // namespace

ConformanceCase AdamWCase(CaseMaker& make) {
  const int64_t n = make.Columns() * make.Between(1, 4);
  const DType state = StateType(make), moment = MomentType(make, state);
  ConformanceCase c;
  c.step = make.MakeStep(ADAMW);
  StepAttributes* a = c.step.mutable_attributes();
  a->set_beta1(0.9);
  a->set_beta2(0.95);
  a->set_epsilon(1e-8);
  a->set_weight_decay(make.Coin() ? 0 : 0.1);
  c.context.learning_rate = 0.01;
  c.context.step = make.Between(4, 20);
  c.in = {make.Normal({n}), make.Normal(state, {n}), make.Normal(moment, {n}, 0.1), make.Positive(moment, {n})};
  AddScaling(make, c);
  for (int i = 0; i < 3; ++i) {
    c.out.emplace_back(i == 0 ? state : moment, std::vector<int64_t>{n});
    c.in_place.push_back({i, i + 1});
  }
  if (state == FP32 && make.round % 3 == 1) {
    RoundAtRandom(make, c);
  } else if (make.Coin()) {
    c.out.emplace_back(make.dtype, std::vector<int64_t>{n});
  }
  return c;
}

ConformanceCase SgdStepCase(CaseMaker& make) {
  const int64_t n = make.Columns() * make.Between(1, 4);
  const DType state = StateType(make), moment = MomentType(make, state);
  const int states = make.Coin() ? 2 : 1;
  ConformanceCase c;
  c.step = make.MakeStep(SGD_STEP);
  c.step.mutable_attributes()->set_momentum(states == 2 ? 0.9 : 0);
  c.step.mutable_attributes()->set_weight_decay(make.Coin() ? 0 : 0.1);
  c.context.learning_rate = 0.1;
  c.in.push_back(make.Normal({n}));
  for (int i = 0; i < states; ++i) {
    c.in.push_back(make.Normal(i == 0 ? state : moment, {n}));
    c.out.emplace_back(i == 0 ? state : moment, std::vector<int64_t>{n});
    c.in_place.push_back({i, i + 1});
  }
  AddScaling(make, c);
  if (state == FP32 && make.round % 3 == 1) {
    RoundAtRandom(make, c);
  } else if (make.Coin()) {
    c.out.emplace_back(make.dtype, std::vector<int64_t>{n});
  }
  return c;
}

ConformanceCase UpdateLossScaleCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(UPDATE_LOSS_SCALE);
  c.step.mutable_attributes()->set_loss_scale(1024);
  c.step.mutable_attributes()->set_growth_interval(static_cast<int32_t>(make.Between(1, 4)));
  Tensor norm = make.Positive(FP64, {2}), scale(FP64, {3});
  if (make.round % 3 == 0) norm.Set(1, 0);
  // In the first rounds the scale is at its smallest or largest value, and must not leave the allowed range.
  scale.Set(0,
            make.round < 4 ? (make.round % 2 == 0 ? 1 : 0x1p60) : std::ldexp(1, static_cast<int>(make.Between(0, 60))));
  scale.Set(1, static_cast<double>(make.Between(0, 3)));
  scale.Set(2, static_cast<double>(make.Between(0, 9)));
  c.in = {norm, scale};
  c.out.emplace_back(FP64, std::vector<int64_t>{3});
  c.in_place = {{0, 1}};
  c.exact = true;
  return c;
}

}  // namespace weft::exec::cuda
