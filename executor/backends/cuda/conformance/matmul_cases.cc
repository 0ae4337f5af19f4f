#include <cmath>

#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

// A device may round factors to TF32 (relative error at most 2^-11) or cut off their lower bits (2^-10). A product of
// two factors is then off by less than 2^-9 of itself, and a sum by less than 2^-9 of the sum of magnitudes.
std::vector<double> Tf32Slack(const ConformanceCase& c, int64_t m, int64_t n, int64_t k) {
  const StepAttributes& a = c.step.attributes();
  std::vector<double> slack;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double magnitudes = 0;
      for (int64_t l = 0; l < k; ++l) {
        magnitudes += std::abs(c.in[0].Get(a.transpose_a() ? l * m + i : i * k + l) *
                               c.in[1].Get(a.transpose_b() ? j * k + l : l * n + j));
      }
      slack.push_back(0x1p-9 * magnitudes);
    }
  }
  return slack;
}

}  // namespace

ConformanceCase MatMulCase(CaseMaker& make) {
  static constexpr int64_t kSizes[] = {1, 8, 5, 64, 37, 16, 72, 3, 33, 2};
  const auto size = [&](int i) {
    return make.round < 10 ? kSizes[(make.round * (i + 1) + i) % 10] : make.Between(1, 60);
  };
  const int64_t m = size(0), n = size(1), k = size(2);
  ConformanceCase c;
  c.step = make.MakeStep(MATMUL, make.Coin());
  StepAttributes& a = *c.step.mutable_attributes();
  a.set_transpose_a(make.Coin());
  a.set_transpose_b(make.Coin());
  c.in.push_back(make.Normal(a.transpose_a() ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}));
  c.in.push_back(make.Normal(a.transpose_b() ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}));
  if (make.Coin()) c.in.push_back(make.Normal({n}));
  // Gradients of weights may be fp32 beside bf16 activations.
  c.out.push_back(make.Normal(make.round % 3 == 1 ? make.statistics() : make.dtype, {m, n}));
  // TF32 is drawn last so that all earlier random numbers are the same for every type.
  if (make.dtype == FP32 && make.Coin()) {
    a.set_tf32(true);
    c.slack = Tf32Slack(c, m, n, k);
  }
  return c;
}

}  // namespace weft::exec::cuda
