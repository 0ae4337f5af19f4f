// Tables of the fields and tags that may occur in the bytes of a message type, for code that walks through the bytes.
// Only the readers of this folder use this header.
#ifndef WEFT_PROTO_IO_WIRE_MESSAGE_H_
#define WEFT_PROTO_IO_WIRE_MESSAGE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace weft {

// https://protobuf.dev/programming-guides/encoding/
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

struct WireMessage;

// Properties of a field. They are cached because the readers need them again and again.
struct WireField {
  const google::protobuf::FieldDescriptor* field = nullptr;
  WireType wire_type = kVarint;
  google::protobuf::FieldDescriptor::Type type = google::protobuf::FieldDescriptor::TYPE_INT32;
  // The field's index in the order of declaration.
  int index = 0;
  bool repeated = false;
  bool has_zero_rule = false;
  // The index of the field's oneof in the message; -1 = the field is in no oneof.
  int oneof = -1;
  // Set only for fields that are messages.
  const WireMessage* message = nullptr;
  const google::protobuf::EnumDescriptor* values = nullptr;
};

// The kind of value that follows a tag.
enum class Content : uint8_t {
  kUnknown,
  kInt64,
  kInt32,
  kUint32,
  kBool,
  kEnum,
  kFixed64,
  kFixed32,
  kString,
  kBytes,
  kMessage,
};

// The properties of a tag that LooksRight needs.
struct WireTag {
  Content content = Content::kUnknown;
  bool packed = false;
  bool has_zero_rule = false;
  // For enums: a set of bits. Bit v is 1 if v is a value of the enum (values below 64 only).
  uint64_t small_values = 0;
  // A bit for this field, unless it is repeated, and a bit for its oneof, if it has one. No bit may occur twice in a
  // message.
  uint64_t once = 0;
  const WireField* field = nullptr;
  const WireMessage* message = nullptr;
};

struct WireMessage {
  // Indexed by field number; the numbers of contracts are small.
  std::vector<WireField> fields;
  // Indexed by tag; empty if the type has more fields and oneofs than WireTag::once has bits.
  std::vector<WireTag> tags;
};

// The tables of some types and of the types of their fields. References to the tables stay valid.
class WireMessages {
 public:
  const WireMessage& Of(const google::protobuf::Descriptor& type);

 private:
  std::map<const google::protobuf::Descriptor*, WireMessage> messages_;
};

// The bytes of -0, the only zero that protobuf does not omit.
inline constexpr absl::string_view kMinusZeroBytes("\0\0\0\0\0\0\0\x80", 8);

}  // namespace weft

#endif  // WEFT_PROTO_IO_WIRE_MESSAGE_H_
