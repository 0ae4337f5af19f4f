// Reports as JSON.
#ifndef WEFT_PROTO_IO_JSON_H_
#define WEFT_PROTO_IO_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace weft {

// The message as JSON: the field names of the .proto file in its order, every field present (unset optional fields,
// messages, members of a oneof and zeros that readers refuse as null: proto/io/written_zero.h), integers of any width
// and doubles as plain numbers (the shortest that reads back to the same bits), enums by name, two spaces per level, a
// newline at the end. InvalidArgument, naming the field, for a NaN, an infinity, an enum number without a name or a
// string that is not UTF-8.
absl::StatusOr<std::string> MessageToJson(const google::protobuf::Message& message);

// `text` in double quotes, for other writers of JSON. `text` is valid UTF-8.
std::string JsonQuoted(absl::string_view text);

// Shortest decimal form that reads back to the same bits. `value` is finite.
std::string JsonNumber(double value);

}  // namespace weft

#endif  // WEFT_PROTO_IO_JSON_H_
