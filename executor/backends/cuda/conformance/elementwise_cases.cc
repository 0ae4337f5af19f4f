// Cases of elementwise kernels that take or make several types.
#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

// Makes a case that maps `inputs` tensors to `outputs` tensors, all of one shape.
ConformanceCase Map(CaseMaker& make, Kernel kernel, int inputs, int outputs) {
  const int64_t rows = make.Rows(), columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  for (int i = 0; i < inputs; ++i) c.in.push_back(make.Normal({rows, columns}, 2));
  for (int i = 0; i < outputs; ++i) c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
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
  // Adds tensors of two types.
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

ConformanceCase SquaredErrorBackwardCase(CaseMaker& make) {
  ConformanceCase c = Map(make, SQUARED_ERROR_BACKWARD, 2, 1);
  c.step.mutable_attributes()->set_loss_weight(make.Uniform(0.1, 1));
  if (make.Coin()) c.in.push_back(make.Positive(FP64, {3}));
  return c;
}

}  // namespace weft::exec::cuda
