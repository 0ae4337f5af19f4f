// What holds for a message of any contract, whatever format it came in. Internal to the readers of this folder.
#ifndef WEFT_PROTO_IO_CONTENT_H_
#define WEFT_PROTO_IO_CONTENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace weft {

// Levels of messages in messages that readers follow.
inline constexpr int kMaxMessageDepth = 100;

// How error texts call a message: "recipe" for weft.Recipe, "model_graph" for weft.ModelGraph.
std::string RootName(const google::protobuf::Descriptor& type);

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type);
std::vector<std::string> ValueNames(const google::protobuf::EnumDescriptor& type);

// The names that `field` may be given by: of those of its type that somebody may ask for.
std::vector<std::string> KnownValues(const google::protobuf::FieldDescriptor& field);

// The value of this name, in any case and with - for _, as flags write it: of a setting, of a text proto (where - ends
// a word) and of JSON alike. Null where there is none.
const google::protobuf::EnumValueDescriptor* FindEnumValue(const google::protobuf::EnumDescriptor& type,
                                                           absl::string_view name);

// Why no other member of its oneof may be given beside `first`.
std::string OneofProblem(const google::protobuf::FieldDescriptor& first);

// What to append to "PATH = 'FP31' is unknown": nearest and known names, and where else what was meant is stated.
std::string EnumHelp(const google::protobuf::FieldDescriptor& field, absl::string_view given);

// What an integer field takes: "an integer of 32 bits".
std::string AllowedIntegers(const google::protobuf::FieldDescriptor& field);
// "; nearest: 2147483647" where `given` is an integer beyond those, " without a 0 in front; nearest: 100" where it has
// one, else nothing.
std::string NearestInteger(const google::protobuf::FieldDescriptor& field, absl::string_view given);

// Whether a number is written with a 0 in front: octal to some, decimal to others, so it is neither here.
bool HasLeadingZero(absl::string_view given);

// Why `text` cannot be the value of a string field (invalid UTF-8, a NUL byte); empty if it can.
absl::string_view StringProblem(absl::string_view text);

// "recipe.lr.decay: invalid UTF-8"; also unknown fields and enum numbers without a name, at any depth.
absl::Status CheckContent(const google::protobuf::Message& message, const std::string& path);

}  // namespace weft

#endif  // WEFT_PROTO_IO_CONTENT_H_
