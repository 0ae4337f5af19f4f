// Strict reading of text protos.
#ifndef WEFT_PROTO_IO_TEXT_READER_H_
#define WEFT_PROTO_IO_TEXT_READER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace weft {

// Parses a text proto into `message`. Errors are "SOURCE:LINE:COLUMN: ..." and name the field, what was given, and
// the nearest that may be. A singular field given twice is refused even if its first value is the default, and a number
// that no double holds. Enums are read in any case, as in settings (there a - may stand for _).
absl::Status ReadText(absl::string_view text, absl::string_view source, google::protobuf::Message* message);

}  // namespace weft

#endif  // WEFT_PROTO_IO_TEXT_READER_H_
