// Writes reports as JSON.
#ifndef WEFT_PROTO_IO_JSON_H_
#define WEFT_PROTO_IO_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace weft {

// Returns the message as JSON, with the field names of the .proto file in its order, two spaces per level and a newline
// at the end. Every field is present. Unset optional fields, messages and members of a oneof are null, and so are zeros
// that readers refuse (proto/io/written_zero.h). Integers of any width and doubles are plain numbers (the shortest that
// reads back to the same bits), enums are names. Returns InvalidArgument, naming the field, for a NaN, an infinity, an
// enum number without a name or a string that is not UTF-8.
absl::StatusOr<std::string> MessageToJson(const google::protobuf::Message& message);

// Returns `text` in double quotes, for other writers of JSON. `text` is valid UTF-8.
std::string JsonQuoted(absl::string_view text);

// Returns the shortest decimal form that reads back to the same bits. `value` is finite.
std::string JsonNumber(double value);

}  // namespace weft

#endif  // WEFT_PROTO_IO_JSON_H_
