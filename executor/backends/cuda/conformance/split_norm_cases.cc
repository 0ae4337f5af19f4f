// Cases of norms of rows whose columns are split over ranks.
#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

// Makes the step of a case; the callers add its operands. Sets `squares_only` if the norm is a root mean square.
ConformanceCase Begin(CaseMaker& make, Kernel kernel, bool& squares_only) {
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  squares_only = make.Coin();
  c.step.mutable_attributes()->set_root_mean_square(squares_only);
  return c;
}

int64_t SomeRows(CaseMaker& make) { return std::max<int64_t>(1, make.Rows()); }

std::vector<int64_t> Partials(int64_t rows, bool squares_only) { return {rows, squares_only ? 1 : 2}; }

}  // namespace

ConformanceCase NormPartialCase(CaseMaker& make) {
  bool squares_only;
  ConformanceCase c = Begin(make, NORM_PARTIAL, squares_only);
  const int64_t rows = SomeRows(make);
  c.in.push_back(make.Normal({rows, make.Columns()}, 2, 1));
  c.out.emplace_back(make.statistics(), Partials(rows, squares_only));
  return c;
}

ConformanceCase NormCombineCase(CaseMaker& make) {
  bool squares_only;
  ConformanceCase c = Begin(make, NORM_COMBINE, squares_only);
  const int64_t rows = SomeRows(make), parts = make.Between(1, 4);
  c.step.mutable_attributes()->set_epsilon(1e-5);
  c.step.mutable_attributes()->set_whole_columns(parts * make.Between(1, 100));
  c.in.push_back(make.Positive(make.statistics(), Partials(parts * rows, squares_only)));
  if (!squares_only) c.out.emplace_back(make.statistics(), std::vector<int64_t>{rows});
  c.out.emplace_back(make.statistics(), std::vector<int64_t>{rows});
  return c;
}

ConformanceCase NormApplyCase(CaseMaker& make) {
  bool squares_only;
  ConformanceCase c = Begin(make, NORM_APPLY, squares_only);
  const int64_t rows = SomeRows(make), columns = make.Columns();
  c.in.push_back(make.Normal({rows, columns}, 2, 1));
  c.in.push_back(make.Normal({columns}, 0.3, 1));
  if (!squares_only) {
    c.in.push_back(make.Normal({columns}));
    c.in.push_back(make.Normal(make.statistics(), {rows}));
  }
  c.in.push_back(make.Positive(make.statistics(), {rows}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
  return c;
}

ConformanceCase NormBackwardPartialCase(CaseMaker& make) {
  bool squares_only;
  ConformanceCase c = Begin(make, NORM_BACKWARD_PARTIAL, squares_only);
  const int64_t rows = SomeRows(make), columns = make.Columns();
  c.in.push_back(make.Normal({rows, columns}, 1, 0.2));
  c.in.push_back(make.Normal({rows, columns}, 2, 1));
  c.in.push_back(make.Normal({columns}, 0.3, 1));
  if (!squares_only) c.in.push_back(make.Normal(make.statistics(), {rows}));
  c.in.push_back(make.Positive(make.statistics(), {rows}));
  c.out.emplace_back(make.statistics(), Partials(rows, squares_only));
  return c;
}

ConformanceCase NormBackwardApplyCase(CaseMaker& make) {
  bool squares_only;
  ConformanceCase c = Begin(make, NORM_BACKWARD_APPLY, squares_only);
  const int64_t rows = SomeRows(make), columns = make.Columns();
  c.step.set_accumulate(make.Coin());
  c.step.mutable_attributes()->set_whole_columns(columns * make.Between(1, 4));
  c.in.push_back(make.Normal({rows, columns}));
  c.in.push_back(make.Normal({rows, columns}, 2, 1));
  c.in.push_back(make.Normal({columns}, 0.3, 1));
  if (!squares_only) c.in.push_back(make.Normal(make.statistics(), {rows}));
  c.in.push_back(make.Positive(make.statistics(), {rows}));
  c.in.push_back(make.Normal(make.statistics(), Partials(rows, squares_only), 5));
  c.out.push_back(make.Normal({rows, columns}));
  return c;
}

}  // namespace weft::exec::cuda
