// Units that interfaces use, and sizes of dtypes.
#ifndef WEFT_PROTO_UTIL_UNITS_H_
#define WEFT_PROTO_UTIL_UNITS_H_

#include <compare>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/types.pb.h"

namespace weft {

// A point in time or a duration: integer picoseconds (rule P12). 2^63 ps is 106 days.
struct Time {
  int64_t ps = 0;

  friend auto operator<=>(Time, Time) = default;
  friend Time operator+(Time a, Time b) { return {a.ps + b.ps}; }
  friend Time operator-(Time a, Time b) { return {a.ps - b.ps}; }
  Time& operator+=(Time other) {
    ps += other.ps;
    return *this;
  }
};

// Rounds up to 1 ps. Negative numbers and NaN give 0; anything beyond 2^62 ps gives 2^62 ps.
Time FromSeconds(double seconds);
double ToSeconds(Time time);

// Bytes of one element; 0 for types in which nothing is stored (DTYPE_UNSPECIFIED, TF32).
int64_t DTypeBytes(DType dtype);
// Returns "fp32", "bf16", "exact192", ...
absl::string_view DTypeName(DType dtype);

// Product of the extents (1 for none), or nothing if an extent is negative or the product exceeds 2^62.
std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape);

// The smallest multiple of `alignment` that is at least `value`; value >= 0, alignment > 0.
inline int64_t RoundUp(int64_t value, int64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_UNITS_H_
