#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::cuda {

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
  // Gradients of weights in fp32 beside bf16 activations.
  c.out.push_back(make.Normal(make.round % 3 == 1 ? make.statistics() : make.dtype, {m, n}));
  return c;
}

}  // namespace weft::cuda
