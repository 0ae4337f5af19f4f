// Checks and names that apply to messages of any contract, in every input format. Only the readers of this folder use
// this header.
#ifndef WEFT_PROTO_IO_CONTENT_H_
#define WEFT_PROTO_IO_CONTENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace weft {

// Readers refuse messages with more levels of messages in messages than this.
inline constexpr int kMaxMessageDepth = 100;

// The name of a message in errors: "recipe" for weft.Recipe, "model_graph" for weft.ModelGraph.
std::string RootName(const google::protobuf::Descriptor& type);

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type);
std::vector<std::string> ValueNames(const google::protobuf::EnumDescriptor& type);

// The names of the enum values that a user may give for `field`.
std::vector<std::string> KnownValues(const google::protobuf::FieldDescriptor& field);

// Finds an enum value by its name, in any case, and with - in place of _ as in flags. Settings, text protos (where -
// ends a word) and JSON all find values in this way. Returns null if there is none.
const google::protobuf::EnumValueDescriptor* FindEnumValue(const google::protobuf::EnumDescriptor& type,
                                                           absl::string_view name);

// Returns the reason why a second member of the oneof may not be given beside `first`.
std::string OneofProblem(const google::protobuf::FieldDescriptor& first);

// Returns the text to append to an error such as "PATH = 'FP31' is unknown". It names the nearest value and the known
// values. If the type has 8 bits and stands in a precision, the text instead says how to predict a runtime that uses
// such a type.
std::string EnumHelp(const google::protobuf::FieldDescriptor& field, absl::string_view given);

// The values that an integer field accepts: "an integer of 32 bits".
std::string AllowedIntegers(const google::protobuf::FieldDescriptor& field);
// Returns "; nearest: 2147483647" if `given` is an integer out of range, " without a 0 in front; nearest: 100" if it
// has a leading 0, else nothing.
std::string NearestInteger(const google::protobuf::FieldDescriptor& field, absl::string_view given);

// True if a number has a leading 0. Some readers take such a number as octal and others as decimal, so weft refuses it.
bool HasLeadingZero(absl::string_view given);

// Returns the reason why `text` cannot be the value of a string field (invalid UTF-8, a NUL byte); empty if it can.
absl::string_view StringProblem(absl::string_view text);

// Returns errors such as "recipe.lr.decay: invalid UTF-8". Also refuses unknown fields and enum numbers without a name,
// at any depth.
absl::Status CheckContent(const google::protobuf::Message& message, const std::string& path);

}  // namespace weft

#endif  // WEFT_PROTO_IO_CONTENT_H_
