// What may stand in the bytes of a message of some type: tables beside its descriptor, for those who walk the bytes.
// Internal to the readers of this folder.
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

// What is asked of a field again and again.
struct WireField {
  const google::protobuf::FieldDescriptor* field = nullptr;
  WireType wire_type = kVarint;
  google::protobuf::FieldDescriptor::Type type = google::protobuf::FieldDescriptor::TYPE_INT32;
  // In the order of declaration.
  int index = 0;
  bool repeated = false;
  bool has_zero_rule = false;
  // Of its oneof in the message, -1 = it is in none.
  int oneof = -1;
  // Of messages.
  const WireMessage* message = nullptr;
  const google::protobuf::EnumDescriptor* values = nullptr;
};

// What stands behind a tag.
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

// A tag as a quick look takes it.
struct WireTag {
  Content content = Content::kUnknown;
  bool packed = false;
  bool has_zero_rule = false;
  // Of enums whose values are small, bit by bit.
  uint64_t small_values = 0;
  // Those of the field and of its oneof: no other field of the message may have had one of them.
  uint64_t once = 0;
  const WireField* field = nullptr;
  const WireMessage* message = nullptr;
};

struct WireMessage {
  // By number; numbers of contracts are small.
  std::vector<WireField> fields;
  // By tag; none, if the type has more fields and oneofs than WireTag::once has bits.
  std::vector<WireTag> tags;
};

// Of some types and of those within them. What was given out stays where it is.
class WireMessages {
 public:
  const WireMessage& Of(const google::protobuf::Descriptor& type);

 private:
  std::map<const google::protobuf::Descriptor*, WireMessage> messages_;
};

// A zero is not written at all, but this is one too.
inline constexpr absl::string_view kMinusZeroBytes("\0\0\0\0\0\0\0\x80", 8);

}  // namespace weft

#endif  // WEFT_PROTO_IO_WIRE_MESSAGE_H_
