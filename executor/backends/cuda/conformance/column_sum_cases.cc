// Cases of gradients that are sums over rows.
#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

// Returns the number of rows. In rounds 9 and 12 there are more rows than one block of the kernel sums.
int64_t SumRows(CaseMaker& make) { return make.round == 9 || make.round == 12 ? 300 : make.Rows(); }

}  // namespace

ConformanceCase BiasGradientCase(CaseMaker& make) {
  const int64_t rows = SumRows(make), columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(BIAS_GRADIENT, make.Coin());
  c.in.push_back(make.Normal({rows, columns}));
  c.out.push_back(make.Normal({columns}));
  return c;
}

ConformanceCase LayerNormBackwardWeightCase(CaseMaker& make) {
  const int64_t rows = SumRows(make), columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(LAYER_NORM_BACKWARD_WEIGHT, make.Coin());
  c.in.push_back(make.Normal({rows, columns}));
  c.in.push_back(make.Normal({rows, columns}));
  c.in.push_back(make.Normal(make.statistics(), {rows}));
  c.in.push_back(make.Positive(make.statistics(), {rows}));
  // Gradients may be of another type than the activations.
  const DType gradient = make.Coin() ? make.statistics() : make.dtype;
  c.out.push_back(make.Normal(gradient, {columns}));
  c.out.push_back(make.Normal(gradient, {columns}));
  return c;
}

ConformanceCase RmsNormBackwardWeightCase(CaseMaker& make) {
  const int64_t rows = SumRows(make), columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(RMS_NORM_BACKWARD_WEIGHT, make.Coin());
  c.in.push_back(make.Normal({rows, columns}));
  c.in.push_back(make.Normal({rows, columns}));
  c.in.push_back(make.Positive(make.statistics(), {rows}));
  c.out.push_back(make.Normal(make.Coin() ? make.statistics() : make.dtype, {columns}));
  return c;
}

ConformanceCase SumPerSampleCase(CaseMaker& make) {
  const int64_t samples = make.round == 8 ? 0 : make.Between(1, 3), columns = make.Columns();
  const int64_t sequence = make.round % 3 == 0 ? make.Between(70, 200) : make.Between(1, 9);
  ConformanceCase c;
  c.step = make.MakeStep(SUM_PER_SAMPLE);
  c.step.mutable_attributes()->set_sequence(sequence);
  c.in.push_back(make.Normal({samples * sequence, columns}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{samples, columns});
  return c;
}

ConformanceCase ScaleShiftBackwardSampleCase(CaseMaker& make) {
  ConformanceCase c = SumPerSampleCase(make);
  c.step.set_kernel(SCALE_SHIFT_BACKWARD_SAMPLE);
  c.in.push_back(make.Normal(c.in[0].shape()));
  c.out[0] = Tensor(make.dtype, {c.out[0].shape()[0], 2 * c.out[0].shape()[1]});
  return c;
}

}  // namespace weft::exec::cuda
