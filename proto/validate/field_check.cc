#include "proto/validate/field_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "proto/program.pb.h"
#include "proto/util/printable.h"
#include "proto/util/suggest.h"

namespace weft {

namespace {

// True if the value is at least 0 and has no sign. -0 compares equal to 0, but it is refused as a typing error. NaN
// fails every comparison.
bool AtLeastZero(double value) { return value >= 0 && !std::signbit(value); }

}  // namespace

absl::Status CheckAtLeast(absl::string_view path, int64_t value, int64_t low) {
  return value >= low ? absl::OkStatus() : BadField(path, value, absl::StrCat("at least ", low));
}

absl::Status CheckWithin(absl::string_view path, int64_t value, int64_t low, int64_t high) {
  if (value < low) return CheckAtLeast(path, value, low);
  return value <= high ? absl::OkStatus() : BadField(path, value, absl::StrCat("at most ", high));
}

absl::Status CheckNotNegative(absl::string_view path, double value) {
  return std::isfinite(value) && AtLeastZero(value) ? absl::OkStatus() : BadField(path, value, "finite and at least 0");
}

absl::Status CheckDeviation(absl::string_view path, double value) {
  return AtLeastZero(value) && value <= 1e30 ? absl::OkStatus() : BadField(path, value, "from 0 to 1e30");
}

absl::Status CheckPositive(absl::string_view path, double value) {
  return std::isfinite(value) && value > 0 ? absl::OkStatus() : BadField(path, value, "finite and greater than 0");
}

absl::Status CheckProbability(absl::string_view path, double value) {
  return AtLeastZero(value) && value < 1 ? absl::OkStatus() : BadField(path, value, "at least 0 and less than 1");
}

absl::Status CheckFinite(absl::string_view path, double value) {
  return std::isfinite(value) ? absl::OkStatus() : BadField(path, value, "finite");
}

absl::Status CheckNotEmpty(absl::string_view path, absl::string_view value) {
  if (!value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " is missing or empty; it is required"));
}

absl::Status CheckName(absl::string_view path, absl::string_view value) {
  if (value.empty() || Printable(value) == value) return CheckNotEmpty(path, value);
  return BadField(path, Quoted(value), "one line without control characters");
}

absl::Status CheckOneOf(absl::string_view path, absl::string_view value, absl::Span<const std::string> known) {
  if (std::any_of(known.begin(), known.end(), [&](const std::string& name) { return value == name; })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(path, " = ", Quoted(value), " is unknown", NameHelp(value, known)));
}

absl::Status CheckKernel(absl::string_view path, absl::string_view value) {
  std::vector<std::string> known;
  const google::protobuf::EnumDescriptor& kernels = *Kernel_descriptor();
  for (int i = 0; i < kernels.value_count(); ++i) {
    if (kernels.value(i)->number() != KERNEL_UNSPECIFIED) known.push_back(kernels.value(i)->name());
  }
  return CheckOneOf(path, value, known);
}

absl::Status CheckProduct(absl::string_view path, int64_t a, int64_t b, int64_t* product) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  if (b != 0 && a > kLimit / b) {
    return absl::InvalidArgumentError(absl::StrCat(path, " = ", a, " * ", b, " is too large; at most 2^62"));
  }
  *product = a * b;
  return absl::OkStatus();
}

}  // namespace weft
