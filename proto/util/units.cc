#include "proto/util/units.h"

#include <cmath>

namespace weft {

Time FromSeconds(double seconds) {
  constexpr double kLimit = 4611686018427387904.0;  // 2^62
  const double ps = std::ceil(seconds * 1e12);
  if (!(ps > 0)) return {0};
  if (ps >= kLimit) return {int64_t{1} << 62};
  return {static_cast<int64_t>(ps)};
}

double ToSeconds(Time time) { return static_cast<double>(time.ps) * 1e-12; }

int64_t DTypeBytes(DType dtype) {
  switch (dtype) {
    case FP64:
      return 8;
    case FP32:
    case INT32:
      return 4;
    case BF16:
    case FP16:
      return 2;
    case UINT8:
      return 1;
    case EXACT192:
      return 24;
    // Other types, and TF32, have no size, because nothing is stored in them.
    default:
      return 0;
  }
}

absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case FP64:
      return "fp64";
    case FP32:
      return "fp32";
    case BF16:
      return "bf16";
    case FP16:
      return "fp16";
    case INT32:
      return "int32";
    case UINT8:
      return "uint8";
    case EXACT192:
      return "exact192";
    case TF32:
      return "tf32";
    default:
      return "unspecified";
  }
}

std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      count = 0;
    } else if (__builtin_mul_overflow(count, extent, &count) || count > kLimit) {
      return std::nullopt;
    }
  }
  return count;
}

}  // namespace weft
