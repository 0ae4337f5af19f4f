// Reads text protos strictly.
#ifndef WEFT_PROTO_IO_TEXT_READER_H_
#define WEFT_PROTO_IO_TEXT_READER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace weft {

// Parses a text proto into `message`. Errors are "SOURCE:LINE:COLUMN: ..." and name the field, the given value and the
// nearest valid one. Refuses a singular field given twice, even if its first value is the default, and a number that no
// double holds. Enums are read in any case, as in settings (where a - may stand for _).
absl::Status ReadText(absl::string_view text, absl::string_view source, google::protobuf::Message* message);

}  // namespace weft

#endif  // WEFT_PROTO_IO_TEXT_READER_H_
