// Tables of the fields and tags that may occur in the bytes of a message type, for code that walks the bytes. Internal
// to the readers of this folder.
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

// Properties of a field, kept because the readers need them again and again.
struct WireField {
  const google::protobuf::FieldDescriptor* field = nullptr;
  WireType wire_type = kVarint;
  google::protobuf::FieldDescriptor::Type type = google::protobuf::FieldDescriptor::TYPE_INT32;
  // The index in the order of declaration.
  int index = 0;
  bool repeated = false;
  bool has_zero_rule = false;
  // The index of its oneof in the message, -1 = it is in none.
  int oneof = -1;
  // Set for fields that are messages.
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

// A tag, as LooksRight uses it.
struct WireTag {
  Content content = Content::kUnknown;
  bool packed = false;
  bool has_zero_rule = false;
  // For enums: one bit for each value below 64.
  uint64_t small_values = 0;
  // The bits of this field (unless it is repeated) and of its oneof. Each bit may occur only once in a message.
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

// The tables of some types and of the types within them. References to them stay valid.
class WireMessages {
 public:
  const WireMessage& Of(const google::protobuf::Descriptor& type);

 private:
  std::map<const google::protobuf::Descriptor*, WireMessage> messages_;
};

// Protobuf omits every zero except -0. These are the bytes of -0.
inline constexpr absl::string_view kMinusZeroBytes("\0\0\0\0\0\0\0\x80", 8);

}  // namespace weft

#endif  // WEFT_PROTO_IO_WIRE_MESSAGE_H_
