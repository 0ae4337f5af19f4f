// Cases of embeddings, rotary positions, concatenation and slices of columns, and images.
#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {

ConformanceCase RopeCase(CaseMaker& make) {
  static constexpr int64_t kHeadSizes[] = {2, 8, 16, 64, 128, 6, 36, 32};
  const int64_t head_size = kHeadSizes[make.round % 8], heads = make.round == 3 ? 19 : make.Between(1, 5);
  const int64_t sequence = std::max<int64_t>(make.Rows(), 1),
                rows = make.round == 8 ? 0 : make.Between(1, 3) * sequence;
  ConformanceCase c;
  c.step = make.MakeStep(ROPE);
  StepAttributes& a = *c.step.mutable_attributes();
  a.set_sequence(sequence);
  a.set_head_size(head_size);
  a.set_base(make.Coin() ? 10000 : 500000);
  a.set_magnitude(make.Coin() ? 1 : 1.2);
  a.set_inverse(make.Coin());
  if (make.Coin()) {
    a.set_factor(8);
    a.set_ramp_low(make.Coin() ? 1 : -20);
    a.set_ramp_high(make.Coin() ? 4 : 2);
    a.set_ramp_positions(make.Coin() ? 8192 : 0);
  }
  c.in.push_back(make.Normal({rows, heads * head_size}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, heads * head_size});
  return c;
}

namespace {

// Returns tokens, some of which occur often: in rounds 9 and 12 more than EmbeddingBackward::kFew times.
Tensor Tokens(CaseMaker& make, int64_t rows, int64_t vocabulary, int64_t most) {
  Tensor tokens = make.Integers({rows}, 0, most);
  for (int64_t i = 0; i < rows; ++i) {
    if (make.Between(0, 2) != 0) tokens.Set(i, static_cast<double>(std::min<int64_t>(vocabulary - 1, 2)));
  }
  return tokens;
}

// Gives the rank the whole table, or a part that begins at row column_shift. Returns the largest token.
int64_t Split(CaseMaker& make, ConformanceCase& c, int64_t vocabulary) {
  if (!make.Coin()) return vocabulary - 1;
  c.context.column_shift = make.Between(0, 3);
  c.step.mutable_attributes()->mutable_column_shift();
  return 3 * vocabulary;
}

// Gives the rank whole sequences, or rows that begin at row_shift.
int64_t RowsOfSequences(CaseMaker& make, ConformanceCase& c, int64_t sequence) {
  c.step.mutable_attributes()->set_sequence(sequence);
  if (make.Coin()) return make.round == 8 ? 0 : make.Between(1, 4) * sequence;
  c.context.row_shift = make.Between(0, 30);
  c.step.mutable_attributes()->mutable_row_shift();
  return make.Rows();
}

int64_t ManyRows(CaseMaker& make) { return make.round == 9 || make.round == 12 ? 300 : make.Rows(); }

}  // namespace

ConformanceCase EmbeddingCase(CaseMaker& make) {
  const int64_t rows = make.Rows(), columns = make.Columns(), vocabulary = make.Between(1, 60);
  ConformanceCase c;
  c.step = make.MakeStep(EMBEDDING);
  const int64_t most = Split(make, c, vocabulary);
  c.in.push_back(make.Integers({rows}, 0, most));
  c.in.push_back(make.Normal({vocabulary, columns}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
  return c;
}

ConformanceCase EmbeddingBackwardCase(CaseMaker& make) {
  const int64_t rows = ManyRows(make), columns = make.Columns(), vocabulary = make.Between(1, 1500);
  ConformanceCase c;
  c.step = make.MakeStep(EMBEDDING_BACKWARD, make.Coin());
  const int64_t most = Split(make, c, vocabulary);
  c.in.push_back(Tokens(make, rows, vocabulary, most));
  c.in.push_back(make.Normal({rows, columns}));
  c.out.push_back(make.Normal(make.Coin() ? make.statistics() : make.dtype, {vocabulary, columns}));
  return c;
}

ConformanceCase PositionEmbeddingCase(CaseMaker& make) {
  const int64_t columns = make.Columns(), sequence = make.Between(1, 20);
  ConformanceCase c;
  c.step = make.MakeStep(POSITION_EMBEDDING);
  const int64_t rows = RowsOfSequences(make, c, sequence);
  c.in.push_back(make.Normal({sequence + make.Between(0, 3), columns}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
  return c;
}

ConformanceCase PositionEmbeddingBackwardCase(CaseMaker& make) {
  const int64_t columns = make.Columns(), sequence = make.Between(1, 20);
  ConformanceCase c;
  c.step = make.MakeStep(POSITION_EMBEDDING_BACKWARD, make.Coin());
  const int64_t rows = RowsOfSequences(make, c, sequence);
  c.in.push_back(make.Normal({rows, columns}));
  c.out.push_back(make.Normal(make.Coin() ? make.statistics() : make.dtype, {sequence + make.Between(0, 3), columns}));
  return c;
}

ConformanceCase ConcatColumnsCase(CaseMaker& make) {
  const int64_t rows = make.Rows(), m = make.Columns(), n = make.Coin() ? 8 * make.Between(1, 4) : make.Between(1, 40);
  ConformanceCase c;
  c.step = make.MakeStep(CONCAT_COLUMNS);
  c.in.push_back(make.Normal({rows, m}));
  c.in.push_back(make.Normal({rows, n}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, m + n});
  return c;
}

ConformanceCase SliceColumnsCase(CaseMaker& make) {
  const int64_t rows = make.Rows(), m = make.Columns(), groups = make.Between(0, 3);
  const int64_t whole = std::max<int64_t>(groups, 1) * m;
  // Draws slices whose bounds are multiples of 8 columns, so that they are aligned in the block of every group, and
  // other slices.
  const bool eights = m % 8 == 0 && make.Coin();
  const int64_t unit = eights ? 8 : 1;
  const int64_t n = unit * make.Between(1, whole / unit), first = unit * make.Between(0, (whole - n) / unit);
  ConformanceCase c;
  c.step = make.MakeStep(SLICE_COLUMNS);
  c.step.mutable_attributes()->set_groups(groups);
  c.context.column_shift = unit * make.Between(0, first / unit);
  c.step.mutable_attributes()->set_first_column(first - c.context.column_shift);
  c.in.push_back(make.Normal({std::max<int64_t>(groups, 1) * rows, m}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, n});
  return c;
}

namespace {

ConformanceCase Upsampling(CaseMaker& make, Kernel kernel, bool backward) {
  const int64_t samples = make.round == 8 ? 0 : make.Between(1, 3), height = make.Between(1, 5),
                width = make.Between(1, 5), columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  c.step.mutable_attributes()->set_height(height);
  c.step.mutable_attributes()->set_width(width);
  const int64_t rows = samples * height * width;
  c.in.push_back(make.Normal({backward ? 4 * rows : rows, columns}));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{backward ? rows : 4 * rows, columns});
  return c;
}

}  // namespace

ConformanceCase UpsampleCase(CaseMaker& make) { return Upsampling(make, UPSAMPLE, false); }
ConformanceCase UpsampleBackwardCase(CaseMaker& make) { return Upsampling(make, UPSAMPLE_BACKWARD, true); }

ConformanceCase TimestepEmbeddingCase(CaseMaker& make) {
  const int64_t rows = make.Rows(), columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(TIMESTEP_EMBEDDING);
  c.step.mutable_attributes()->set_timestep_scale(make.Coin() ? 1 : 1000);
  c.in.push_back(make.Integers({rows}, 0, 999));
  c.out.emplace_back(make.dtype, std::vector<int64_t>{rows, columns});
  return c;
}

ConformanceCase SquaredErrorCase(CaseMaker& make) {
  const int64_t rows = make.round == 9 ? 400 : make.Rows(), columns = make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(SQUARED_ERROR);
  c.step.mutable_attributes()->set_loss_weight(make.Uniform(0.1, 1));
  c.context.global_microbatch = make.Between(0, 2);
  c.in.push_back(make.Normal({rows, columns}));
  c.in.push_back(make.Normal({rows, columns}));
  // The step writes one element of the losses. The other elements must keep their values.
  c.out.push_back(make.Normal(FP64, {3}));
  c.updated = {0};
  return c;
}

}  // namespace weft::exec::cuda
