// Finds zeros that somebody wrote into fields in which a zero stands for another value. These fields have no presence,
// so a zero looks like a field that is not given.
//
// If somebody writes a zero into such a field, it would silently become another value: `steps: 0` would train one step.
// Readers of text and JSON, and --set, therefore refuse it. The writer of JSON writes null for it, which counts as
// absent.
#ifndef WEFT_PROTO_IO_WRITTEN_ZERO_H_
#define WEFT_PROTO_IO_WRITTEN_ZERO_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace weft {

struct ZeroRule {
  // Full name of the field, such as "weft.Recipe.steps".
  absl::string_view field;
  // Text for errors: what a written value may be, and what leaving the field out means.
  absl::string_view allowed;
};

// All rules, sorted by name.
absl::Span<const ZeroRule> ZeroRules();

// True if the field has a rule.
bool HasZeroRule(const google::protobuf::FieldDescriptor& field);

// True if the field has a rule and holds its zero: 0, an empty string or an unspecified enum value.
bool HoldsUnwritableZero(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);

// Call for a field that was written. If the field HoldsUnwritableZero, returns an error such as "recipe.steps = 0 must
// be at least 1; the default is 1".
absl::Status CheckWritten(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                          absl::string_view path);

}  // namespace weft

#endif  // WEFT_PROTO_IO_WRITTEN_ZERO_H_
