// Reads binary messages strictly.
#ifndef WEFT_PROTO_IO_WIRE_READER_H_
#define WEFT_PROTO_IO_WIRE_READER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace weft {

// Parses `bytes` into `message`. Refuses with "SOURCE: byte N: recipe.lr: ...": everything that protobuf would silently
// skip, truncate or overwrite (unknown fields and enum values at any depth, integers too large for their field, a
// singular field given twice, two members of a oneof), invalid UTF-8, and damage.
absl::Status ReadWire(absl::string_view bytes, absl::string_view source, google::protobuf::Message* message);

}  // namespace weft

#endif  // WEFT_PROTO_IO_WIRE_READER_H_
