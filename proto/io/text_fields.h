// Finds what is wrong with the fields of a text proto, and names the fields by their paths.
#ifndef WEFT_PROTO_IO_TEXT_FIELDS_H_
#define WEFT_PROTO_IO_TEXT_FIELDS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace weft {

struct TextProblem {
  // Both count from 0, as in protobuf. A tab goes on to the next multiple of 8.
  int line = 0;
  int column = 0;
  // "plan.precision.compute = 'FP31' is unknown; nearest: 'FP32'; known: ...".
  std::string message;
};

// Returns the first field in `text` that is unknown, is given twice, or has a value of another type. Protobuf's own
// parser reads the text, but it does not say where a field is or what could stand there. It also accepts three
// mistakes: of a field given twice it takes the second if the first is the default, it reads a number that no double
// holds as 0 or infinity, and 010 as 8. If the parser has `accepted` the text, only those three are looked for. Returns
// nothing if the text is not a text proto: the parser reports that.
std::optional<TextProblem> FirstTextProblem(absl::string_view text, const google::protobuf::Descriptor& type,
                                            bool accepted);

// Returns `text`, with the same number of bytes, in which enum values written in another case have the contract's
// spelling. Protobuf's own parser accepts no other.
std::string EnumsAsTheContractHasThem(absl::string_view text, const google::protobuf::Descriptor& type);

}  // namespace weft

#endif  // WEFT_PROTO_IO_TEXT_FIELDS_H_
