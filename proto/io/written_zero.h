// Fields without presence whose zero stands for another value, which a reader cannot tell from one that is not given.
//
// A zero that somebody writes into such a field is a value that would silently become another: `steps: 0` would train
// one step. Readers of text and JSON and --set refuse it; a writer of JSON writes null, which is absent.
#ifndef WEFT_PROTO_IO_WRITTEN_ZERO_H_
#define WEFT_PROTO_IO_WRITTEN_ZERO_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace weft {

struct ZeroRule {
  // Full name: "weft.Recipe.steps".
  absl::string_view field;
  // What a written value may be, and what leaving it out means.
  absl::string_view allowed;
};

// Sorted by name.
absl::Span<const ZeroRule> ZeroRules();

// Whether the field is one of them.
bool HasZeroRule(const google::protobuf::FieldDescriptor& field);

// Whether it is and holds its zero: 0, an empty string or an unspecified enum value.
bool HoldsUnwritableZero(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);

// "recipe.steps = 0 must be at least 1; left out, it is 1" if the field, which was written, HoldsUnwritableZero.
absl::Status CheckWritten(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                          absl::string_view path);

}  // namespace weft

#endif  // WEFT_PROTO_IO_WRITTEN_ZERO_H_
