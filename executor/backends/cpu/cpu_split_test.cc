// Kernels on the parts of a matrix that ranks hold give the results of kernels on the whole matrix. Results are bitwise
// equal if an element depends only on its own part, else close. Covers all storage types, with one and three threads.
#include <cmath>
#include <string>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/numerics/exact192.h"

namespace weft::exec::cpu {
namespace {

constexpr int64_t kRows = 12, kColumns = 70, kParts = 2;

Tensor Columns(const Tensor& whole, int64_t first, int64_t count) {
  const int64_t columns = whole.shape().back(), rows = whole.size() / columns;
  Tensor part(whole.dtype(),
              whole.shape().size() == 1 ? std::vector<int64_t>{count} : std::vector<int64_t>{rows, count});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < count; ++c) part.Set(r * count + c, whole.Get(r * columns + first + c));
  }
  return part;
}

Tensor Rows(const Tensor& whole, int64_t first, int64_t count) {
  const int64_t columns = whole.shape().back();
  Tensor part(whole.dtype(), {count, columns});
  for (int64_t i = 0; i < count * columns; ++i) part.Set(i, whole.Get(first * columns + i));
  return part;
}

// Stacks the parts, one below the other.
Tensor Stack(const std::vector<Tensor>& parts) {
  std::vector<int64_t> shape = parts[0].shape();
  shape[0] *= static_cast<int64_t>(parts.size());
  Tensor whole(parts[0].dtype(), shape);
  int64_t at = 0;
  for (const Tensor& part : parts) {
    for (int64_t i = 0; i < part.size(); ++i) whole.Set(at++, part.Get(i));
  }
  return whole;
}

void ExpectSame(const Tensor& a, const Tensor& b) { EXPECT_EQ(a.bytes(), b.bytes()); }

void ExpectNear(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  double scale = 1e-30;
  for (double value : b.Values()) scale = std::max(scale, std::abs(value));
  for (int64_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a.Get(i), b.Get(i), tolerance * scale) << "element " << i;
}

class SplitTest : public testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  DType statistics() const { return dtype() == FP64 ? FP64 : FP32; }
  double tolerance() const { return dtype() == FP64 ? 1e-13 : dtype() == FP32 ? 2e-6 : 1e-2; }

  std::vector<Tensor> Run(const Step& step, std::vector<Tensor> in, std::vector<Tensor> out, StepContext context = {}) {
    const absl::Status status = RunStep(*backend_, step, in, out, context);
    EXPECT_TRUE(status.ok()) << status;
    for (const Tensor& tensor : out) EXPECT_TRUE(tensor.GuardIntact());
    return out;
  }
  static Step StepOf(Kernel kernel) {
    Step step;
    step.set_kernel(kernel);
    return step;
  }
  Tensor Random(std::vector<int64_t> shape) { return Normal(dtype(), std::move(shape), random_); }

  std::mt19937_64 random_{7};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(std::get<1>(GetParam()));
};

TEST_P(SplitTest, BiasIsAddedToEveryRow) {
  const Tensor x = Random({kRows, kColumns}), bias = Random({kColumns});
  const Tensor y = Run(StepOf(BIAS_ADD), {x, bias}, {Tensor(dtype(), x.shape())})[0];
  Tensor expected(dtype(), x.shape());
  for (int64_t i = 0; i < x.size(); ++i) {
    const double sum = x.Get(i) + bias.Get(i % kColumns);
    expected.Set(i, dtype() == FP64 ? sum : static_cast<float>(sum));
  }
  ExpectSame(y, expected);
}

// Compares forward and backward of row norms, on whole rows and on parts.
TEST_P(SplitTest, NormsOfPartsAreThoseOfWholeRows) {
  Tensor x = Random({kRows, kColumns});
  for (int64_t i = 0; i < x.size(); ++i) x.Set(i, x.Get(i) + 3 + (i % kColumns < kColumns / 2 ? 1 : 0));
  const Tensor gamma = Random({kColumns}), beta = Random({kColumns}), dy = Random({kRows, kColumns});
  const Tensor matrix(dtype(), x.shape()), vector(statistics(), {kRows});
  Step whole = StepOf(LAYER_NORM);
  whole.mutable_attributes()->set_epsilon(1e-3);
  const std::vector<Tensor> expected = Run(whole, {x, gamma, beta}, {matrix, vector, vector});
  const Tensor expected_dx = Run(StepOf(LAYER_NORM_BACKWARD), {dy, x, gamma, expected[1], expected[2]}, {matrix})[0];

  const int64_t n = kColumns / kParts;
  std::vector<Tensor> partial, sums, y, dx;
  for (int64_t p = 0; p < kParts; ++p) {
    partial.push_back(Run(StepOf(NORM_PARTIAL), {Columns(x, p * n, n)}, {Tensor(statistics(), {kRows, 2})})[0]);
  }
  Step combine = StepOf(NORM_COMBINE);
  combine.mutable_attributes()->set_epsilon(1e-3);
  combine.mutable_attributes()->set_whole_columns(kColumns);
  const std::vector<Tensor> of_rows = Run(combine, {Stack(partial)}, {vector, vector});
  ExpectNear(of_rows[0], expected[1], statistics() == FP64 ? 1e-13 : 1e-6);
  ExpectNear(of_rows[1], expected[2], statistics() == FP64 ? 1e-13 : 4e-6);
  for (int64_t p = 0; p < kParts; ++p) {
    const Tensor g = Columns(gamma, p * n, n), part(dtype(), {kRows, n});
    const Tensor y_part =
        Run(StepOf(NORM_APPLY), {Columns(x, p * n, n), g, Columns(beta, p * n, n), of_rows[0], of_rows[1]}, {part})[0];
    ExpectNear(y_part, Columns(expected[0], p * n, n), tolerance());
    sums.push_back(Run(StepOf(NORM_BACKWARD_PARTIAL),
                       {Columns(dy, p * n, n), Columns(x, p * n, n), g, of_rows[0], of_rows[1]},
                       {Tensor(statistics(), {kRows, 2})})[0]);
  }
  Tensor all = sums[0];
  for (int64_t i = 0; i < all.size(); ++i) all.Set(i, sums[0].Get(i) + sums[1].Get(i));
  Step apply = StepOf(NORM_BACKWARD_APPLY);
  apply.mutable_attributes()->set_whole_columns(kColumns);
  for (int64_t p = 0; p < kParts; ++p) {
    const Tensor old = Random({kRows, n});
    for (const bool accumulate : {false, true}) {
      apply.set_accumulate(accumulate);
      const Tensor dx_part = Run(
          apply, {Columns(dy, p * n, n), Columns(x, p * n, n), Columns(gamma, p * n, n), of_rows[0], of_rows[1], all},
          {accumulate ? old : Tensor(dtype(), {kRows, n})})[0];
      Tensor wanted = Columns(expected_dx, p * n, n);
      if (accumulate) {
        for (int64_t i = 0; i < wanted.size(); ++i) wanted.Set(i, wanted.Get(i) + old.Get(i));
      }
      ExpectNear(dx_part, wanted, 4 * tolerance());
    }
  }
}

// Checks the root mean square norm against its definition, and its derivative against finite differences in double.
TEST_P(SplitTest, RootMeanSquareNorms) {
  const Tensor x = Random({kRows, kColumns}), gamma = Random({kColumns}), dy = Random({kRows, kColumns});
  const int64_t n = kColumns / kParts;
  auto rms = [](Kernel kernel) {
    Step step = StepOf(kernel);
    step.mutable_attributes()->set_root_mean_square(true);
    step.mutable_attributes()->set_whole_columns(kernel == NORM_COMBINE || kernel == NORM_BACKWARD_APPLY ? kColumns
                                                                                                         : 0);
    step.mutable_attributes()->set_epsilon(kernel == NORM_COMBINE ? 1e-3 : 0);
    return step;
  };
  std::vector<Tensor> partial;
  for (int64_t p = 0; p < kParts; ++p) {
    partial.push_back(Run(rms(NORM_PARTIAL), {Columns(x, p * n, n)}, {Tensor(statistics(), {kRows, 1})})[0]);
  }
  const Tensor rstd = Run(rms(NORM_COMBINE), {Stack(partial)}, {Tensor(statistics(), {kRows})})[0];
  auto value = [&](int64_t row, const std::vector<double>& of_row, int64_t column) {
    double squares = 0;
    for (double e : of_row) squares += e * e;
    return of_row[column] / std::sqrt(squares / kColumns + 1e-3) * gamma.Get(column);
  };
  std::vector<double> sums(kRows, 0);
  std::vector<Tensor> sums_of_parts;
  for (int64_t p = 0; p < kParts; ++p) {
    const Tensor part = Columns(x, p * n, n);
    const Tensor y = Run(rms(NORM_APPLY), {part, Columns(gamma, p * n, n), rstd}, {Tensor(dtype(), {kRows, n})})[0];
    Tensor expected(dtype(), {kRows, n});
    for (int64_t r = 0; r < kRows; ++r) {
      std::vector<double> row(kColumns);
      for (int64_t c = 0; c < kColumns; ++c) row[c] = x.Get(r * kColumns + c);
      for (int64_t c = 0; c < n; ++c) expected.Set(r * n + c, value(r, row, p * n + c));
    }
    ExpectNear(y, expected, tolerance());
    sums_of_parts.push_back(Run(rms(NORM_BACKWARD_PARTIAL),
                                {Columns(dy, p * n, n), part, Columns(gamma, p * n, n), rstd},
                                {Tensor(statistics(), {kRows, 1})})[0]);
  }
  Tensor all = sums_of_parts[0];
  for (int64_t i = 0; i < all.size(); ++i) all.Set(i, sums_of_parts[0].Get(i) + sums_of_parts[1].Get(i));
  for (int64_t p = 0; p < kParts; ++p) {
    const Tensor dx = Run(rms(NORM_BACKWARD_APPLY),
                          {Columns(dy, p * n, n), Columns(x, p * n, n), Columns(gamma, p * n, n), rstd, all},
                          {Tensor(dtype(), {kRows, n})})[0];
    Tensor expected(dtype(), {kRows, n});
    for (int64_t r = 0; r < kRows; ++r) {
      std::vector<double> row(kColumns);
      for (int64_t c = 0; c < kColumns; ++c) row[c] = x.Get(r * kColumns + c);
      for (int64_t c = 0; c < n; ++c) {
        double slope = 0;
        const double h = 1e-4;
        for (int64_t k = 0; k < kColumns; ++k) {
          std::vector<double> up = row, down = row;
          up[p * n + c] += h;
          down[p * n + c] -= h;
          slope += dy.Get(r * kColumns + k) * (value(r, up, k) - value(r, down, k)) / (2 * h);
        }
        expected.Set(r * n + c, slope);
      }
    }
    ExpectNear(dx, expected, std::max(4 * tolerance(), 1e-7));
  }
}

TEST_P(SplitTest, LossesOfPartsAreThoseOfWholeRows) {
  // 64 columns in two parts of 32. With a vocabulary of 30, the second part has no column of the vocabulary.
  for (const int64_t vocabulary : {50, 30}) {
    const int64_t columns = 64, n = 32;
    const Tensor logits = Random({kRows, columns});
    Tensor targets(INT32, {kRows});
    for (int64_t r = 0; r < kRows; ++r) targets.Set(r, r == 3 ? -1 : static_cast<double>(random_() % vocabulary));
    Step whole = StepOf(CROSS_ENTROPY);
    whole.mutable_attributes()->set_vocabulary(vocabulary);
    whole.mutable_attributes()->set_loss_weight(0.25);
    StepContext context;
    context.global_microbatch = 1;
    const std::vector<Tensor> expected =
        Run(whole, {logits, targets}, {Tensor(statistics(), {kRows}), Tensor(FP64, {2})}, context);
    Step backward = whole;
    backward.set_kernel(CROSS_ENTROPY_BACKWARD);
    const Tensor gradient = Run(backward, {logits, expected[0], targets}, {Tensor(dtype(), {kRows, columns})})[0];

    Step partial = StepOf(CROSS_ENTROPY_PARTIAL);
    partial.mutable_attributes()->set_vocabulary(vocabulary);
    for (Step* step : {&partial, &backward}) step->mutable_attributes()->mutable_column_shift();
    std::vector<Tensor> parts;
    for (int64_t p = 0; p < kParts; ++p) {
      StepContext at;
      at.column_shift = p * n;
      parts.push_back(Run(partial, {Columns(logits, p * n, n), targets}, {Tensor(statistics(), {kRows, 2})}, at)[0]);
    }
    Step combine = StepOf(CROSS_ENTROPY_COMBINE);
    combine.mutable_attributes()->set_loss_weight(0.25);
    const std::vector<Tensor> result =
        Run(combine, {Stack(parts), targets}, {Tensor(statistics(), {kRows}), Tensor(FP64, {2})}, context);
    const double close = statistics() == FP64 ? 1e-13 : 1e-6;
    ExpectNear(result[0], expected[0], close);
    ExpectNear(result[1], expected[1], close);
    for (int64_t p = 0; p < kParts; ++p) {
      StepContext at;
      at.column_shift = p * n;
      const Tensor part =
          Run(backward, {Columns(logits, p * n, n), expected[0], targets}, {Tensor(dtype(), {kRows, n})}, at)[0];
      ExpectSame(part, Columns(gradient, p * n, n));
    }
  }
}

TEST_P(SplitTest, RowsOfATableAreFoundOnOneRank) {
  const int64_t rows = 10, n = rows / kParts;
  const Tensor table = Random({rows, kColumns}), dy = Random({kRows, kColumns});
  Tensor tokens(INT32, {kRows});
  for (int64_t r = 0; r < kRows; ++r) tokens.Set(r, static_cast<double>(random_() % rows));
  const Tensor expected = Run(StepOf(EMBEDDING), {tokens, table}, {Tensor(dtype(), {kRows, kColumns})})[0];
  const Tensor gradient = Run(StepOf(EMBEDDING_BACKWARD), {tokens, dy}, {Tensor(dtype(), {rows, kColumns})})[0];
  Tensor sum(dtype(), {kRows, kColumns});
  for (int64_t p = 0; p < kParts; ++p) {
    Step step = StepOf(EMBEDDING);
    ShiftTerm* term = step.mutable_attributes()->mutable_column_shift()->add_terms();
    term->set_axis("x");
    term->set_stride(n);
    StepContext at;
    at.column_shift = p * n;
    const Tensor part = Run(step, {tokens, Rows(table, p * n, n)}, {Tensor(dtype(), {kRows, kColumns})}, at)[0];
    for (int64_t i = 0; i < sum.size(); ++i) sum.Set(i, sum.Get(i) + part.Get(i));
    step.set_kernel(EMBEDDING_BACKWARD);
    ExpectSame(Run(step, {tokens, dy}, {Tensor(dtype(), {n, kColumns})}, at)[0], Rows(gradient, p * n, n));
  }
  ExpectSame(sum, expected);
}

TEST_P(SplitTest, DropoutAndPositionsCountTheWhole) {
  const int64_t sequences = 3, sequence = kRows / sequences, n = kColumns / kParts;
  Step step = StepOf(DROPOUT);
  step.mutable_attributes()->set_dropout(0.4);
  step.mutable_attributes()->set_dropout_site(5);
  StepContext context;
  context.seed = 11;
  context.first_sample = 100;
  context.microbatch_sequences = sequences;
  const Tensor x = Random({kRows, kColumns});
  const Tensor expected = Run(step, {x}, {Tensor(dtype(), x.shape())}, context)[0];
  Step columns = step;
  columns.mutable_attributes()->set_whole_columns(kColumns);
  Step rows = step;
  rows.mutable_attributes()->set_sequence(sequence);
  // Parts of 6 rows hold one and a half sequences.
  const int64_t half = kRows / kParts;
  Step positions = StepOf(POSITION_EMBEDDING);
  positions.mutable_attributes()->set_sequence(sequence);
  const Tensor table = Random({sequence + 2, kColumns});
  const Tensor embedded = Run(positions, {table}, {Tensor(dtype(), x.shape())}, context)[0];
  positions.mutable_attributes()->mutable_row_shift();
  for (int64_t p = 0; p < kParts; ++p) {
    StepContext at = context;
    at.column_shift = p * n;
    ExpectSame(Run(columns, {Columns(x, p * n, n)}, {Tensor(dtype(), {kRows, n})}, at)[0], Columns(expected, p * n, n));
    at = context;
    at.row_shift = p * half;
    ExpectSame(Run(rows, {Rows(x, p * half, half)}, {Tensor(dtype(), {half, kColumns})}, at)[0],
               Rows(expected, p * half, half));
    ExpectSame(Run(positions, {table}, {Tensor(dtype(), {half, kColumns})}, at)[0], Rows(embedded, p * half, half));
  }
}

TEST_P(SplitTest, HeadsOfAttentionAreThoseOfTheWhole) {
  const int64_t sequence = 6, heads = 4, size = 5, d = heads * size, n = d / kParts;
  Step step = StepOf(ATTENTION);
  StepAttributes& a = *step.mutable_attributes();
  a.set_heads(heads);
  a.set_sequence(sequence);
  a.set_causal(true);
  a.set_scale(0.5);
  a.set_dropout(0.3);
  StepContext context;
  context.seed = 3;
  context.microbatch_sequences = kRows / sequence;
  const Tensor qkv = Random({kRows, 3 * d});
  const std::vector<Tensor> expected =
      Run(step, {qkv}, {Tensor(dtype(), {kRows, d}), Tensor(statistics(), {kRows, heads})}, context);
  a.set_heads(heads / kParts);
  a.set_whole_columns(heads);
  for (int64_t p = 0; p < kParts; ++p) {
    // The rank's columns of q, k and v, side by side.
    Tensor part(dtype(), {kRows, 3 * n});
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < 3 * n; ++c) {
        part.Set(r * 3 * n + c, qkv.Get(r * 3 * d + c / n * d + p * n + c % n));
      }
    }
    StepContext at = context;
    at.column_shift = p * heads / kParts;
    const std::vector<Tensor> made =
        Run(step, {part}, {Tensor(dtype(), {kRows, n}), Tensor(statistics(), {kRows, heads / kParts})}, at);
    ExpectSame(made[0], Columns(expected[0], p * n, n));
    // Statistics lie head by head in each sequence.
    for (int64_t s = 0; s < kRows / sequence; ++s) {
      const int64_t all = heads * sequence, own = all / kParts;
      for (int64_t i = 0; i < own; ++i) EXPECT_EQ(made[1].Get(s * own + i), expected[1].Get(s * all + p * own + i));
    }
  }
}

TEST_P(SplitTest, ExactNormsDoNotDependOnTheCut) {
  const Tensor x = Random({kRows, kColumns});
  Step step = StepOf(SQUARED_NORM);
  step.mutable_attributes()->set_slot(1);
  Tensor whole = Run(step, {x}, {Tensor(EXACT192, {2})})[0];
  Exact192 sum = {};
  for (int64_t p = 0; p < kParts; ++p) {
    Tensor part = Run(step, {Columns(x, p * kColumns / kParts, kColumns / kParts)}, {Tensor(EXACT192, {2})})[0];
    ExactMerge(absl::MakeConstSpan(part.data<Exact192>() + 1, 1), absl::MakeSpan(&sum, 1));
  }
  EXPECT_TRUE(sum == whole.data<Exact192>()[1]);
  const Tensor plain = Run(step, {x}, {Tensor(FP64, {2})})[0];
  EXPECT_NEAR(ExactRound(sum, 53), plain.Get(1), 1e-13 * plain.Get(1));
  Tensor totals = Run(StepOf(NORM_TOTAL), {whole}, {Tensor(FP64, {2})})[0];
  EXPECT_DOUBLE_EQ(totals.Get(0), std::sqrt(ExactRound(sum, 53)));
  // A rank that holds only a copy of the tensor (writes_norm = false) writes 0 over the old value.
  StepContext copy;
  copy.writes_norm = false;
  EXPECT_EQ(Run(step, {x}, {plain}, copy)[0].Get(1), 0);
  EXPECT_EQ(ExactRound(Run(step, {x}, {whole}, copy)[0].data<Exact192>()[1], 53), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, SplitTest, testing::Combine(testing::Values(FP64, FP32, BF16), testing::Values(1, 3)));

}  // namespace
}  // namespace weft::exec::cpu
