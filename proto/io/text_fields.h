// Finds what is wrong with the fields of a text proto, and names the fields by their paths.
#ifndef WEFT_PROTO_IO_TEXT_FIELDS_H_
#define WEFT_PROTO_IO_TEXT_FIELDS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace weft {

struct TextProblem {
  // Both count from 0, as in protobuf. A tab advances to the next multiple of 8.
  int line = 0;
  int column = 0;
  // For example "plan.precision.compute = 'FP31' is unknown; nearest: 'FP32'; known: ...".
  std::string message;
};

// Returns the first problem in `text`: a field that is unknown, is given twice, or has a value of another type.
//
// Protobuf's own parser also reads the text, but its errors do not name the field or the allowed values. It also
// accepts three mistakes. If a field is given twice and the first value is the default, it takes the second. It reads a
// number that no double holds as 0 or infinity. It reads 010 as 8.
//
// If the parser has `accepted` the text, this function looks only for these three mistakes. Returns nothing if the text
// is not a text proto, because the parser reports that.
std::optional<TextProblem> FirstTextProblem(absl::string_view text, const google::protobuf::Descriptor& type,
                                            bool accepted);

// Returns `text` with enum values that are written in another case replaced by the contract's spelling, the only one
// that protobuf's own parser accepts. The number of bytes stays the same.
std::string EnumsAsTheContractHasThem(absl::string_view text, const google::protobuf::Descriptor& type);

}  // namespace weft

#endif  // WEFT_PROTO_IO_TEXT_FIELDS_H_
