#include "proto/util/units_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace weft {
namespace {

// Four significant digits, no trailing zeros.
std::string Digits(double value) { return absl::StrFormat("%.4g", value); }

}  // namespace

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  // The limit is 1023.5 instead of 1024, because 1023.95 would print as 1024.
  while (std::abs(value) >= 1023.5 && unit < 6) value /= 1024, ++unit;
  return absl::StrCat(Digits(value), " ", kUnits[unit]);
}

std::string SecondsText(double seconds) {
  if (seconds == 0) return "0 s";
  const double size = std::abs(seconds);
  if (size >= 0.99995) return absl::StrCat(Digits(seconds), " s");
  if (size >= 0.99995e-3) return absl::StrCat(Digits(seconds * 1e3), " ms");
  if (size >= 0.99995e-6) return absl::StrCat(Digits(seconds * 1e6), " us");
  return absl::StrCat(Digits(seconds * 1e9), " ns");
}

std::string CountText(double count) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  int unit = 0;
  while (std::abs(count) >= 999.95 && unit < 6) count /= 1000, ++unit;
  return absl::StrCat(Digits(count), kUnits[unit]);
}

std::string SignedPercentText(double ratio) { return absl::StrFormat("%+.1f %%", 100 * ratio); }

}  // namespace weft
