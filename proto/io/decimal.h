// Reads numbers as people write them.
#ifndef WEFT_PROTO_IO_DECIMAL_H_
#define WEFT_PROTO_IO_DECIMAL_H_

#include "absl/strings/string_view.h"

namespace weft {

enum class Decimal {
  kRight,
  // Not a number. "inf" and "nan" count as not a number either.
  kNoNumber,
  // A number that no double can hold: the nearest double would be infinity, or 0 although the number is not 0.
  kOutOfRange,
};

// The allowed range, for errors about kOutOfRange.
inline constexpr absl::string_view kDecimalRange = "0, or a magnitude from 5e-324 to 1.79e+308";

// Reads the double nearest to `text`, which may have blanks around it and a sign. Sets `value` only for kRight.
Decimal ReadDecimal(absl::string_view text, double* value);

// Returns the text to append to an error about a number that begins badly: " without a 0 in front" for 010 (octal to
// some readers, decimal to others), " without a + in front" for +5, and "" for other texts. JSON and text protos refuse
// both too.
absl::string_view BadBeginning(absl::string_view text);

}  // namespace weft

#endif  // WEFT_PROTO_IO_DECIMAL_H_
