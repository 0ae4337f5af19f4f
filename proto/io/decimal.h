// Numbers as people write them.
#ifndef WEFT_PROTO_IO_DECIMAL_H_
#define WEFT_PROTO_IO_DECIMAL_H_

#include "absl/strings/string_view.h"

namespace weft {

enum class Decimal {
  kRight,
  // Also "inf" and "nan".
  kNoNumber,
  // A number, but no double: its nearest would be infinity, or 0 although it is not 0.
  kOutOfRange,
};

// What kOutOfRange is to be told with.
inline constexpr absl::string_view kDecimalRange = "0, or from 5e-324 to 1.79e+308 in size";

// The double nearest to `text`, with blanks around it and a sign; `value` is left as it is unless that is right.
Decimal ReadDecimal(absl::string_view text, double* value);

// How nobody may begin a number, here as in JSON and text protos: what to append to what was expected, " without a 0 in
// front" for 010 (octal to some, decimal to others) and " without a + in front" for +5; nothing for other texts.
absl::string_view BadBeginning(absl::string_view text);

}  // namespace weft

#endif  // WEFT_PROTO_IO_DECIMAL_H_
