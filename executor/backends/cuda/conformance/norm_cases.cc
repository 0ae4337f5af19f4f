// Cases of norms of whole rows.
#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

// Returns the number of columns. Some rounds have rows that fill the registers of a warp or of a block, or that do not
// fit into registers.
int64_t NormColumns(CaseMaker& make) {
  return make.round == 10 ? 8200 : make.round == 11 ? 17000 : make.round == 12 ? 768 : make.Columns();
}
int64_t NormRows(CaseMaker& make) { return make.round == 10 || make.round == 11 ? 2 : make.Rows(); }

ConformanceCase Forward(CaseMaker& make, Kernel kernel, bool centered) {
  const int64_t rows = NormRows(make), columns = NormColumns(make);
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  c.step.mutable_attributes()->set_epsilon(1e-5);
  c.in.push_back(make.Normal({rows, columns}, 2, 0.5));
  c.in.push_back(make.Normal({columns}, 0.3, 1));
  if (centered) c.in.push_back(make.Normal({columns}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
  if (centered) c.out.emplace_back(make.statistics(), std::vector<int64_t>{rows});
  c.out.emplace_back(make.statistics(), std::vector<int64_t>{rows});
  return c;
}

ConformanceCase Backward(CaseMaker& make, Kernel kernel, bool centered) {
  const int64_t rows = NormRows(make), columns = NormColumns(make);
  ConformanceCase c;
  c.step = make.MakeStep(kernel, make.Coin());
  c.in.push_back(make.Normal({rows, columns}));
  c.in.push_back(make.Normal({rows, columns}, 2, 0.5));
  c.in.push_back(make.Normal({columns}, 0.3, 1));
  if (centered) c.in.push_back(make.Normal(make.statistics(), {rows}));
  c.in.push_back(make.Positive(make.statistics(), {rows}));
  c.out.push_back(make.Normal({rows, columns}));
  return c;
}

}  // namespace

ConformanceCase LayerNormCase(CaseMaker& make) { return Forward(make, LAYER_NORM, true); }
ConformanceCase LayerNormBackwardCase(CaseMaker& make) { return Backward(make, LAYER_NORM_BACKWARD, true); }
ConformanceCase RmsNormCase(CaseMaker& make) { return Forward(make, RMS_NORM, false); }
ConformanceCase RmsNormBackwardCase(CaseMaker& make) { return Backward(make, RMS_NORM_BACKWARD, false); }

}  // namespace weft::exec::cuda
