// Finds what is missing in a text proto that ends too early.
#ifndef WEFT_PROTO_IO_TEXT_END_H_
#define WEFT_PROTO_IO_TEXT_END_H_

#include <string>

#include "absl/strings/string_view.h"

namespace weft {

// `line` and `column` (from 0, as protobuf counts) are the place of an error. If this is the end of `text`, states what
// is missing there. If a bracket is open: "the file ends, but the '{' at 1:6 has no '}'"; otherwise: the value of a
// field is missing. Returns "" if the place is not the end.
std::string ProblemAtEnd(absl::string_view text, int line, int column);

}  // namespace weft

#endif  // WEFT_PROTO_IO_TEXT_END_H_
