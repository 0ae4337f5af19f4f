// Cases of gradient norms, in fp64 and as exact sums, and of other exact sums. An exact sum has one value in any order.
#include "executor/backends/cuda/conformance/conformance_case.h"
#include "executor/numerics/exact192.h"

namespace weft::exec::cuda {
namespace {

// Returns sums of a few numbers of all magnitudes. Some of the sums have overflowed.
Tensor Accumulators(CaseMaker& make, int64_t n) {
  Tensor tensor(EXACT192, {n});
  for (int64_t i = 0; i < n; ++i) {
    Exact192& sum = tensor.data<Exact192>()[i];
    for (int64_t term = make.Between(0, 3); term > 0; --term) {
      const double x = std::ldexp(make.Uniform(-1, 1), static_cast<int>(make.Between(-140, 62)));
      ExactAccumulate(absl::MakeConstSpan(&x, 1), absl::MakeSpan(&sum, 1));
    }
    const double large = 0x1p70;
    if (make.Between(0, 20) == 0) ExactAccumulate(absl::MakeConstSpan(&large, 1), absl::MakeSpan(&sum, 1));
  }
  return tensor;
}

}  // namespace

ConformanceCase SquaredNormCase(CaseMaker& make) {
  const int64_t n = make.round == 12 ? 40000 : make.Rows() * make.Columns(), slots = make.Between(1, 5);
  const bool exact = make.Coin();
  ConformanceCase c;
  c.step = make.MakeStep(SQUARED_NORM);
  c.step.mutable_attributes()->set_slot(make.Between(0, slots - 1));
  c.context.writes_norm = make.Between(0, 4) > 0;
  c.in = {make.Normal({n})};
  c.out.push_back(exact ? Accumulators(make, slots) : make.Normal(FP64, {slots}));
  c.updated = {0};
  return c;
}

ConformanceCase NormTotalCase(CaseMaker& make) {
  // Round 3 has more norms than a block has threads.
  const int64_t n = make.round == 3 ? 700 : make.Between(1, 40);
  ConformanceCase c;
  c.step = make.MakeStep(NORM_TOTAL);
  StepAttributes* a = c.step.mutable_attributes();
  if (make.Coin()) a->set_clip_norm(make.Uniform(0.01, 2));
  Tensor norms = make.Coin() ? make.Positive(FP64, {n}) : Tensor(EXACT192, {n});
  if (norms.dtype() == EXACT192) {
    for (int64_t i = 0; i < n; ++i) {
      const double x = make.Uniform(0, 1);
      ExactAccumulate(absl::MakeConstSpan(&x, 1), absl::MakeSpan(norms.data<Exact192>() + i, 1));
    }
  } else if (make.round % 5 == 1) {
    norms.Set(0, INFINITY);
  } else if (make.round % 5 == 2) {
    for (int64_t i = 0; i < n; ++i) norms.Set(i, 0);
  }
  c.in.push_back(norms);
  if (make.Coin()) {
    c.in.push_back(make.Positive(FP64, {3}));
  } else if (make.Coin()) {
    a->set_loss_scale(1024);
  }
  c.out.emplace_back(FP64, std::vector<int64_t>{2});
  c.exact = true;
  return c;
}

ConformanceCase ExactAccumulateCase(CaseMaker& make) {
  const int64_t n = make.Rows() * make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(EXACT_ACCUMULATE);
  c.in = {make.Normal({n}, std::ldexp(1, static_cast<int>(make.Between(-12, 8))))};
  if (n > 3) {
    c.in[0].Set(1, INFINITY);
    c.in[0].Set(2, NAN);
  }
  c.out.push_back(Accumulators(make, n));
  c.updated = {0};
  c.exact = true;
  return c;
}

ConformanceCase ExactRoundCase(CaseMaker& make) {
  const int64_t n = make.Rows() * make.Columns();
  ConformanceCase c;
  c.step = make.MakeStep(EXACT_ROUND);
  c.in = {Accumulators(make, n)};
  c.out.emplace_back(make.dtype, std::vector<int64_t>{n});
  c.exact = true;
  return c;
}

}  // namespace weft::exec::cuda
