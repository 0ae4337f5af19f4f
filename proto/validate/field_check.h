// Checks of single fields for the validators of specs. All errors have the form "recipe.lr.warmup_steps = -3 must be at
// least 0".
#ifndef WEFT_PROTO_VALIDATE_FIELD_CHECK_H_
#define WEFT_PROTO_VALIDATE_FIELD_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

// Returns "PATH = VALUE must be EXPECTED".
template <typename T>
absl::Status BadField(absl::string_view path, const T& value, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(path, " = ", value, " must be ", expected));
}

absl::Status CheckAtLeast(absl::string_view path, int64_t value, int64_t low);
absl::Status CheckWithin(absl::string_view path, int64_t value, int64_t low, int64_t high);

// Refuses values that are not finite or below 0.
absl::Status CheckNotNegative(absl::string_view path, double value);
// Refuses values outside [0, 1e30]. With these deviations, no value of a normal distribution overflows FP32.
absl::Status CheckDeviation(absl::string_view path, double value);
// Refuses values that are not finite or not greater than 0.
absl::Status CheckPositive(absl::string_view path, double value);
// Refuses values outside [0, 1).
absl::Status CheckProbability(absl::string_view path, double value);
absl::Status CheckFinite(absl::string_view path, double value);

absl::Status CheckNotEmpty(absl::string_view path, absl::string_view value);
// Refuses names that do not fit on a line of text: empty names, and names that contain anything that a terminal would
// obey (printable.h).
absl::Status CheckName(absl::string_view path, absl::string_view value);
// Refuses values that are not in `known`. The error names the nearest known value.
absl::Status CheckOneOf(absl::string_view path, absl::string_view value, absl::Span<const std::string> known);
// Refuses values that are not the name of a kernel of program.proto.
absl::Status CheckKernel(absl::string_view path, absl::string_view value);

// Sets `product` to a * b for a, b >= 0. Returns an error naming `path` if the product exceeds 2^62.
absl::Status CheckProduct(absl::string_view path, int64_t a, int64_t b, int64_t* product);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_FIELD_CHECK_H_
