// Helpers for the tests of validators: tables of bad values.
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_TEST_UTIL_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_TEST_UTIL_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/io/set_field.h"

namespace weft {

// One way to break one field of a valid spec.
struct Bad {
  // The path as in the .proto file, without indices: "lr.peak".
  std::string field;
  // The change: text proto merged into the valid spec, or "PATH=VALUE" for a field of a list.
  std::string change;
  // A text that the error must contain.
  std::string error;
};

template <typename T>
T Parse(const std::string& text) {
  T message;
  const absl::Status status = ParseMessage(text, "base", &message);
  EXPECT_TRUE(status.ok()) << status;
  return message;
}

inline void Apply(const std::string& change, google::protobuf::Message* message) {
  const size_t equals = change.find('=');
  if (equals != std::string::npos) {
    const absl::Status status = SetField(message, change.substr(0, equals), change.substr(equals + 1));
    ASSERT_TRUE(status.ok()) << status;
  } else {
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(change, message)) << change;
  }
}

// Collects all fields that hold values, as paths without indices.
inline void LeafFields(const google::protobuf::Descriptor& type, const std::string& prefix,
                       std::set<std::string>* leaves) {
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    if (field.message_type() != nullptr) {
      LeafFields(*field.message_type(), prefix + field.name() + ".", leaves);
    } else {
      leaves->insert(prefix + field.name());
    }
  }
}

// Checks that every case is refused with its error, and that every field has a case. Fields in `free` need no case,
// because any value is valid for them.
template <typename T>
void CheckTable(const T& base, const std::vector<Bad>& table, const std::set<std::string>& free,
                const std::function<absl::Status(T*)>& validate) {
  std::set<std::string> missing;
  LeafFields(*T::descriptor(), "", &missing);
  for (const std::string& field : free) EXPECT_EQ(missing.erase(field), 1u) << field;
  for (const Bad& bad : table) {
    T message = base;
    Apply(bad.change, &message);
    const absl::Status status = validate(&message);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field << ": " << bad.change;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(bad.error)) << bad.change;
    missing.erase(bad.field);
  }
  EXPECT_THAT(missing, testing::IsEmpty()) << "fields without a bad value";
}

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_TEST_UTIL_H_
