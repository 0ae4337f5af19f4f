// What is wrong with the fields of a text proto, told by their paths.
#ifndef WEFT_PROTO_IO_TEXT_FIELDS_H_
#define WEFT_PROTO_IO_TEXT_FIELDS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace weft {

struct TextProblem {
  // Both from 0, as protobuf counts: a tab goes on to the next multiple of 8.
  int line = 0;
  int column = 0;
  // "plan.precision.compute = 'FP31' is unknown; nearest: 'FP32'; known: ...".
  std::string message;
};

// The first field in `text` that is not known, is given twice, or has a value that is not of its type. Protobuf's own
// parser reads the text: it says neither where a field is nor what could stand there, lets the second of two win where
// the first is its default, takes a number that no double holds for 0 or infinity, and 010 for 8. Where it has
// `accepted` the text, only those three are looked for. Nothing where the text is no text proto: that is the parser's
// to say.
std::optional<TextProblem> FirstTextProblem(absl::string_view text, const google::protobuf::Descriptor& type,
                                            bool accepted);

// `text` of as many bytes, in which enums that are written in another case than the contract's are written as there.
// Protobuf's own parser knows no other.
std::string EnumsAsTheContractHasThem(absl::string_view text, const google::protobuf::Descriptor& type);

}  // namespace weft

#endif  // WEFT_PROTO_IO_TEXT_FIELDS_H_
