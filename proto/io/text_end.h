// What a text proto that ends too early lacks.
#ifndef WEFT_PROTO_IO_TEXT_END_H_
#define WEFT_PROTO_IO_TEXT_END_H_

#include <string>

#include "absl/strings/string_view.h"

namespace weft {

// "the file ends inside the '{' of 1:6, which has no '}'", where line and column (from 0, as protobuf counts) are the
// end of `text` and a bracket is open; that it ends before the value of a field, where none is; empty elsewhere.
std::string ProblemAtEnd(absl::string_view text, int line, int column);

}  // namespace weft

#endif  // WEFT_PROTO_IO_TEXT_END_H_
