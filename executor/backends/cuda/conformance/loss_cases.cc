// Cases of cross entropy: rows excluded from the loss, padded columns, columns that are split over ranks.
#include <algorithm>

#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

Tensor Targets(CaseMaker& make, int64_t rows, int64_t vocabulary) {
  Tensor targets = make.Integers({rows}, 0, vocabulary - 1);
  // None, some or all of the rows are excluded from the loss: their target is -1.
  const int64_t masked = make.Between(0, 5);
  for (int64_t i = 0; i < rows; ++i) {
    if (masked == 5 || make.Between(1, 6) <= masked) targets.Set(i, -1);
  }
  return targets;
}

// Returns the tensor of losses. The step writes one element of it.
Tensor Losses(CaseMaker& make, ConformanceCase& c) {
  const int64_t count = make.Between(1, 4);
  c.context.global_microbatch = make.Between(0, count - 1);
  c.updated.push_back(1);
  return make.Normal(FP64, {count});
}

// Returns the number of columns. Round 12 has more columns than a block of the kernel handles at a time.
int64_t LogitColumns(CaseMaker& make) { return make.round == 12 ? 8240 : make.Columns(); }

}  // namespace

ConformanceCase CrossEntropyCase(CaseMaker& make) {
  const int64_t rows = make.Rows(), columns = LogitColumns(make);
  const int64_t vocabulary = make.Coin() ? columns : make.Between(1, columns);
  ConformanceCase c;
  c.step = make.MakeStep(CROSS_ENTROPY);
  c.step.mutable_attributes()->set_vocabulary(vocabulary);
  c.step.mutable_attributes()->set_loss_weight(make.Uniform(0.1, 1));
  c.in = {make.Normal({rows, columns}, 3), Targets(make, rows, vocabulary)};
  c.out.emplace_back(make.statistics(), std::vector<int64_t>{rows});
  c.out.push_back(Losses(make, c));
  return c;
}

ConformanceCase CrossEntropyBackwardCase(CaseMaker& make) {
  const int64_t rows = make.Rows(), columns = LogitColumns(make), shift = make.Coin() ? 0 : make.Between(0, 40);
  // The size of the whole vocabulary: it may end before these columns begin, or in the middle of them.
  const int64_t vocabulary = make.Between(1, shift + columns);
  ConformanceCase c;
  c.step = make.MakeStep(CROSS_ENTROPY_BACKWARD);
  c.step.mutable_attributes()->set_vocabulary(vocabulary);
  c.step.mutable_attributes()->set_loss_weight(make.Uniform(0.1, 1));
  c.step.mutable_attributes()->mutable_column_shift();
  c.context.column_shift = shift;
  c.in = {make.Normal({rows, columns}, 3), make.Normal(make.statistics(), {rows}, 1, 5),
          Targets(make, rows, vocabulary)};
  if (make.Coin()) c.in.push_back(make.Positive(FP64, {3}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
  return c;
}

ConformanceCase CrossEntropyPartialCase(CaseMaker& make) {
  const int64_t rows = make.Rows(), columns = make.Columns(), shift = make.Between(0, 40);
  const int64_t vocabulary = make.Between(1, shift + columns);
  ConformanceCase c;
  c.step = make.MakeStep(CROSS_ENTROPY_PARTIAL);
  c.step.mutable_attributes()->set_vocabulary(vocabulary);
  c.step.mutable_attributes()->mutable_column_shift();
  c.context.column_shift = shift;
  c.in = {make.Normal({rows, columns}, 3), Targets(make, rows, vocabulary)};
  c.out.emplace_back(make.statistics(), std::vector<int64_t>{rows, 2});
  return c;
}

ConformanceCase CrossEntropyCombineCase(CaseMaker& make) {
  const int64_t rows = std::max<int64_t>(1, make.Rows()), parts = make.Between(1, 4);
  ConformanceCase c;
  c.step = make.MakeStep(CROSS_ENTROPY_COMBINE);
  c.step.mutable_attributes()->set_loss_weight(make.Uniform(0.1, 1));
  c.in = {make.Normal(make.statistics(), {parts * rows, 2}, 2, 4), Targets(make, rows, 100)};
  // One part has no column of the vocabulary.
  if (parts > 1) c.in[0].Set(0, -INFINITY);
  c.out.emplace_back(make.statistics(), std::vector<int64_t>{rows});
  c.out.push_back(Losses(make, c));
  return c;
}

}  // namespace weft::exec::cuda
