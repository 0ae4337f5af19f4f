// Cases of dropout, on whole samples and on parts of them.
#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

ConformanceCase Dropping(CaseMaker& make, Kernel kernel) {
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  StepAttributes& a = *c.step.mutable_attributes();
  const bool heads = make.Coin();
  const int64_t samples = make.Between(1, 4), sequence = make.Between(1, heads ? 20 : 9);
  const int64_t columns = heads ? make.Between(1, 4) * sequence : make.Columns();
  int64_t rows = samples * sequence;
  a.set_dropout(make.round == 7 ? 0 : make.Uniform(0.05, 0.9));
  a.set_dropout_site(static_cast<uint32_t>(make.Between(0, 1000000)));
  c.context.seed = static_cast<uint64_t>(make.Between(0, int64_t{1} << 62));
  c.context.microbatch_sequences = samples;
  c.context.first_sample = make.Between(0, int64_t{1} << 40);
  if (heads) a.set_heads(columns / sequence);
  if (heads || make.Coin()) a.set_sequence(sequence);
  if (make.Coin()) {
    // The rank holds part of the columns, or of the heads.
    const int64_t own = heads ? columns / sequence : columns;
    c.context.column_shift = make.Between(0, 2) * own;
    a.set_whole_columns(c.context.column_shift + own + make.Between(0, 20));
  }
  if (!heads && a.sequence() > 0 && make.Coin()) {
    // The rank holds some rows in the middle.
    a.mutable_row_shift();
    c.context.row_shift = make.Between(0, rows);
    rows = make.Between(1, rows);
    c.context.own_sequences = make.Between(1, 2);
    c.context.sample_stride = 7;
  }
  c.in.push_back(make.Normal({rows, columns}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
  return c;
}

}  // namespace

ConformanceCase DropoutCase(CaseMaker& make) { return Dropping(make, DROPOUT); }

ConformanceCase DropoutMaskCase(CaseMaker& make) {
  ConformanceCase c = Dropping(make, DROPOUT_MASK);
  c.out.emplace_back(UINT8, c.in[0].shape());
  return c;
}

}  // namespace weft::exec::cuda
