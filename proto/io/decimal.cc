#include "proto/io/decimal.h"

#include <cmath>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/strip.h"

namespace weft {

Decimal ReadDecimal(absl::string_view text, double* value) {
  text = absl::StripAsciiWhitespace(text);
  if (!text.empty() && text[0] == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text[0] == '-') return Decimal::kNoNumber;
  }
  // Refuse numbers of base 16.
  if (text.find_first_of("xX") != absl::string_view::npos) return Decimal::kNoNumber;
  double read = 0;
  const auto [rest, error] = absl::from_chars(text.data(), text.data() + text.size(), read);
  if (error == std::errc::invalid_argument || rest != text.data() + text.size()) return Decimal::kNoNumber;
  if (error == std::errc::result_out_of_range) return Decimal::kOutOfRange;
  if (!std::isfinite(read)) return Decimal::kNoNumber;
  *value = read;
  return Decimal::kRight;
}

absl::string_view BadBeginning(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&text, "+")) return " without a + in front";
  absl::ConsumePrefix(&text, "-");
  return text.size() > 1 && text[0] == '0' && absl::ascii_isdigit(text[1]) ? " without a 0 in front" : "";
}

}  // namespace weft
