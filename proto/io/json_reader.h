// Reads messages from JSON.
#ifndef WEFT_PROTO_IO_JSON_READER_H_
#define WEFT_PROTO_IO_JSON_READER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace weft {

// Parses a JSON object into `message`. Members are named as in the .proto file or in lowerCamelCase. Enums are given by
// name, null counts as absent, and integers may be strings, as protobuf's own printer writes them. Errors are
// "SOURCE:LINE:COLUMN: recipe.lr: ..." and name the nearest field or enum value.
absl::Status ReadJson(absl::string_view text, absl::string_view source, google::protobuf::Message* message);

}  // namespace weft

#endif  // WEFT_PROTO_IO_JSON_READER_H_
