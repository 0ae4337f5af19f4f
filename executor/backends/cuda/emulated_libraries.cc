#include "executor/backends/cuda/emulated_libraries.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/kernels/access.h"
#include "executor/numerics/tf32_bits.h"

namespace weft::exec::cuda {
namespace {

// Returns an element of a factor, rounded to TF32 if the shape sets `tf32`. A device may cut off the lower bits
// instead.
template <typename T>
T Factor(const MatmulShape& s, const Array& array, int64_t at) {
  const T x = Load<T>(array, at);
  return s.tf32 ? static_cast<T>(Tf32FromFloat(static_cast<float>(x))) : x;
}

// Multiplies with sums in type T, as the device does.
template <typename T>
void Multiply(const MatmulShape& s, const MatmulPointers& p) {
  const Array a{const_cast<void*>(p.a), s.a.type}, b{const_cast<void*>(p.b), s.b.type};
  const Array bias{const_cast<void*>(p.bias), s.bias}, y{p.y, s.y.type};
  for (int64_t batch = 0; batch < s.batch; ++batch) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        T sum = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          const int64_t at_a = batch * s.a.batch_stride + (s.transpose_a ? k * s.a.stride + i : i * s.a.stride + k);
          const int64_t at_b = batch * s.b.batch_stride + (s.transpose_b ? j * s.b.stride + k : k * s.b.stride + j);
          sum = std::fma(Factor<T>(s, a, at_a), Factor<T>(s, b, at_b), sum);
        }
        sum *= static_cast<T>(s.scale);
        if (s.bias != Type::kNone) sum += Load<T>(bias, j);
        const int64_t at_y = batch * s.y.batch_stride + i * s.y.stride + j;
        if (s.accumulate) sum += Load<T>(y, at_y);
        Store<T>(y, at_y, sum);
      }
    }
  }
}

class LoopMatmul : public Matmul {
 public:
  absl::Status Prepare(const MatmulShape& shape) override { return Check(shape); }

  absl::Status Run(const MatmulShape& shape, const MatmulPointers& pointers, const StreamRef& stream) override {
    const absl::Status status = Check(shape);
    if (!status.ok()) return status;
    shape.a.type == Type::kFp64 ? Multiply<double>(shape, pointers) : Multiply<float>(shape, pointers);
    return absl::OkStatus();
  }

 private:
  static absl::Status Check(const MatmulShape& shape) {
    if (shape.a.type != shape.b.type) return absl::InvalidArgumentError("a product of matrices of two types");
    if (shape.tf32 && shape.a.type != Type::kFp32) {
      return absl::InvalidArgumentError("a product in TF32 needs matrices of fp32");
    }
    return absl::OkStatus();
  }
};

}  // namespace

Libraries EmulatedLibraries() {
  Libraries libraries;
  libraries.matmul = std::make_unique<LoopMatmul>();
  return libraries;
}

}  // namespace weft::exec::cuda
