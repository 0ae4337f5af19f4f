// Cases of elementwise kernels, and of kernels that combine each row with a vector shared by many rows.
#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

// Makes a case that maps `inputs` tensors to `outputs` tensors, all of one shape.
ConformanceCase Map(CaseMaker& make, Kernel kernel, int inputs, int outputs, double scale = 2) {
  const int64_t rows = make.Rows(), columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  for (int i = 0; i < inputs; ++i) c.in.push_back(make.Normal({rows, columns}, scale));
  for (int i = 0; i < outputs; ++i) c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
  return c;
}

// Makes a case of samples of a few rows each, with one vector per sample of `blocks` times as many columns.
ConformanceCase PerSample(CaseMaker& make, Kernel kernel, int blocks) {
  const int64_t samples = make.round == 8 ? 0 : make.Between(1, 4), sequence = make.Between(1, 9);
  const int64_t columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  c.step.mutable_attributes()->set_sequence(sequence);
  c.in.push_back(make.Normal({samples * sequence, columns}));
  c.in.push_back(make.Normal({samples, blocks * columns}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{samples * sequence, columns});
  return c;
}

}  // namespace

ConformanceCase AddCase(CaseMaker& make) {
  ConformanceCase c = Map(make, ADD, 2, 1);
  if (make.Coin()) {
    c.step.set_accumulate(true);
    c.out[0] = make.Normal(c.out[0].shape());
  } else if (make.Coin()) {
    c.in_place = {{0, 0}};
  }
  // A sum of two types.
  if (make.round % 5 == 4 && make.dtype == BF16) c.in[1] = make.Normal(FP32, c.in[1].shape());
  return c;
}

ConformanceCase CastCase(CaseMaker& make) {
  ConformanceCase c = Map(make, CAST, 1, 1);
  static constexpr DType kTo[] = {FP32, BF16, FP16, FP64};
  c.out[0] = Tensor(kTo[make.round % 4], c.out[0].shape());
  return c;
}

ConformanceCase FillCase(CaseMaker& make) {
  ConformanceCase c = Map(make, FILL, 0, 1);
  c.step.mutable_attributes()->set_value(make.Uniform(-3, 3));
  return c;
}

ConformanceCase ScaleCase(CaseMaker& make) {
  ConformanceCase c = Map(make, SCALE, 1, 1);
  c.in.insert(c.in.begin(), make.Normal(FP64, {2}));
  if (make.Coin()) {
    c.in_place = {{0, 1}};
  } else if (make.dtype == FP32) {
    c.out[0] = Tensor(BF16, c.out[0].shape());
  }
  return c;
}

ConformanceCase GeluCase(CaseMaker& make) {
  ConformanceCase c = Map(make, GELU, 1, 1);
  c.step.mutable_attributes()->set_tanh_approximation(make.Coin());
  return c;
}

ConformanceCase GeluBackwardCase(CaseMaker& make) {
  ConformanceCase c = Map(make, GELU_BACKWARD, 2, 1);
  c.step.mutable_attributes()->set_tanh_approximation(make.Coin());
  return c;
}

ConformanceCase SiluCase(CaseMaker& make) { return Map(make, SILU, 1, 1); }
ConformanceCase SiluBackwardCase(CaseMaker& make) { return Map(make, SILU_BACKWARD, 2, 1); }
// In round 5, gates go beyond the range of exp.
ConformanceCase SwigluCase(CaseMaker& make) { return Map(make, SWIGLU, 2, 1, make.round == 5 ? 60 : 2); }
ConformanceCase SwigluBackwardCase(CaseMaker& make) {
  return Map(make, SWIGLU_BACKWARD, 3, 2, make.round == 5 ? 30 : 2);
}

ConformanceCase SquaredErrorBackwardCase(CaseMaker& make) {
  ConformanceCase c = Map(make, SQUARED_ERROR_BACKWARD, 2, 1);
  c.step.mutable_attributes()->set_loss_weight(make.Uniform(0.1, 1));
  if (make.Coin()) c.in.push_back(make.Positive(FP64, {3}));
  return c;
}

ConformanceCase BiasAddCase(CaseMaker& make) {
  ConformanceCase c = Map(make, BIAS_ADD, 1, 1);
  c.in.push_back(make.Normal({c.in[0].shape()[1]}));
  if (make.Coin()) c.in_place = {{0, 0}};
  return c;
}

ConformanceCase AddPerSampleCase(CaseMaker& make) { return PerSample(make, ADD_PER_SAMPLE, 1); }
ConformanceCase ScaleShiftCase(CaseMaker& make) { return PerSample(make, SCALE_SHIFT, 2); }
ConformanceCase ScaleShiftBackwardCase(CaseMaker& make) { return PerSample(make, SCALE_SHIFT_BACKWARD, 2); }

}  // namespace weft::exec::cuda
