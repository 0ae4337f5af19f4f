#include "proto/wire_reader.h"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/content.h"
#include "proto/status.h"
#include "proto/suggest.h"
#include "proto/written_zero.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// https://protobuf.dev/programming-guides/encoding/
enum WireType { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

WireType WireTypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return kLength;
    default:
      return kVarint;
  }
}

// What the checker asks of a field again and again.
struct WireField {
  const FieldDescriptor* field = nullptr;
  WireType wire_type = kVarint;
  FieldDescriptor::Type type = FieldDescriptor::TYPE_INT32;
  // In the order of declaration.
  int index = 0;
  bool repeated = false;
  // Whatever 64 bits hold is right.
  bool takes_all = false;
  bool has_zero_rule = false;
  // Of its oneof in the message, -1 = it is in none.
  int oneof = -1;
  // Of messages.
  const struct WireMessage* message = nullptr;
  const google::protobuf::EnumDescriptor* values = nullptr;
};

struct WireMessage {
  // By number; numbers of contracts are small.
  std::vector<WireField> fields;
};

// A zero is not written at all, but this is one too.
constexpr absl::string_view kMinusZero("\0\0\0\0\0\0\0\x80", 8);

// Bytes of which most are right: what WireChecker would say nothing of, in a third of its time. What is wrong, and what
// is written in an uncommon way, is left to it.
class QuickLook {
 public:
  explicit QuickLook(absl::string_view bytes) : at_(bytes.data()) {}

  // Whether the message that ends `size` bytes further on is right; then these bytes are behind.
  bool Message(const WireMessage& type, size_t size, size_t depth) {
    if (depth > kMaxMessageDepth) return false;
    const char* const end = at_ + size;
    uint64_t seen = 0, oneofs = 0;
    while (at_ < end) {
      uint64_t tag = 0;
      if (!Varint(end, &tag)) return false;
      const uint64_t number = tag >> 3;
      if (number >= type.fields.size() || type.fields[number].field == nullptr) return false;
      const WireField& field = type.fields[number];
      if (!field.repeated && !Once(field.index, &seen)) return false;
      if (field.oneof >= 0 && !Once(field.oneof, &oneofs)) return false;
      if (!Field(field, tag & 7, end, depth)) return false;
    }
    return true;
  }

 private:
  static bool Once(int index, uint64_t* seen) {
    if (index >= 64 || (*seen >> index & 1) != 0) return false;
    *seen |= uint64_t{1} << index;
    return true;
  }

  bool Varint(const char* end, uint64_t* value) {
    *value = 0;
    // Nine bytes; the tenth is for negative numbers.
    for (int shift = 0; shift < 63; shift += 7) {
      if (at_ >= end) return false;
      const uint64_t byte = static_cast<unsigned char>(*at_++);
      *value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    if (at_ >= end || static_cast<unsigned char>(*at_) > 1) return false;
    *value |= static_cast<uint64_t>(*at_++) << 63;
    return true;
  }

  bool Field(const WireField& field, uint64_t wire_type, const char* end, size_t depth) {
    const bool packed = wire_type == kLength && field.wire_type != kLength && field.repeated;
    if (wire_type != field.wire_type && !packed) return false;
    if (wire_type != kLength) return Scalar(field, end);
    uint64_t length = 0;
    if (!Varint(end, &length) || length > static_cast<uint64_t>(end - at_)) return false;
    const char* const value_end = at_ + length;
    if (packed) {
      while (at_ < value_end) {
        if (!Scalar(field, value_end)) return false;
      }
      return true;
    }
    if (field.message != nullptr) return Message(*field.message, length, depth + 1);
    if (field.type == FieldDescriptor::TYPE_STRING && !StringProblem({at_, length}).empty()) return false;
    at_ = value_end;
    return true;
  }

  bool Scalar(const WireField& field, const char* end) {
    if (field.wire_type != kVarint) {
      const size_t size = field.wire_type == kFixed64 ? 8 : 4;
      if (static_cast<size_t>(end - at_) < size) return false;
      if (field.has_zero_rule && absl::string_view(at_, size) == kMinusZero) return false;
      at_ += size;
      return true;
    }
    uint64_t value = 0;
    if (!Varint(end, &value)) return false;
    if (field.takes_all) return true;
    const int64_t as_signed = static_cast<int64_t>(value);
    const bool fits_int32 =
        as_signed >= std::numeric_limits<int32_t>::min() && as_signed <= std::numeric_limits<int32_t>::max();
    switch (field.type) {
      case FieldDescriptor::TYPE_BOOL:
        return value <= 1;
      case FieldDescriptor::TYPE_INT32:
        return fits_int32;
      case FieldDescriptor::TYPE_ENUM:
        return fits_int32 && field.values->FindValueByNumber(static_cast<int>(as_signed)) != nullptr;
      default:
        return value <= std::numeric_limits<uint32_t>::max();
    }
  }

  const char* at_;
};

// Walks the wire format beside the descriptors; reads nothing but says whether protobuf would read all of it.
class WireChecker {
 public:
  WireChecker(absl::string_view bytes, absl::string_view source) : bytes_(bytes), source_(source) {}

  absl::Status Check(const Descriptor& type) {
    const WireMessage& root = MessageOf(type);
    if (QuickLook(bytes_).Message(root, bytes_.size(), 0)) return absl::OkStatus();
    root_ = RootName(type);
    return CheckMessage(root, bytes_.size()) ? absl::OkStatus() : error_;
  }

 private:
  const WireMessage& MessageOf(const Descriptor& type) {
    const auto [found, is_new] = messages_.try_emplace(&type);
    // References into a map stay.
    WireMessage& message = found->second;
    for (int i = 0; is_new && i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const auto number = static_cast<size_t>(field.number());
      if (number >= message.fields.size()) message.fields.resize(number + 1);
      WireField own;
      own.field = &field;
      own.wire_type = WireTypeOf(field);
      own.type = field.type();
      own.index = field.index();
      own.repeated = field.is_repeated();
      own.takes_all = own.type == FieldDescriptor::TYPE_INT64 || own.type == FieldDescriptor::TYPE_UINT64;
      own.has_zero_rule = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE && HasZeroRule(field);
      if (const auto* oneof = field.real_containing_oneof(); oneof != nullptr) own.oneof = oneof->index();
      if (own.type == FieldDescriptor::TYPE_MESSAGE) own.message = &MessageOf(*field.message_type());
      if (own.type == FieldDescriptor::TYPE_ENUM) own.values = field.enum_type();
      message.fields[number] = own;
    }
    return message;
  }

  struct Level {
    const FieldDescriptor* field;
    int index;
  };

  // What is checked returns whether it is right; what is not sets `error_`.
  bool Error(absl::string_view message) {
    std::string path = root_;
    for (const Level& level : path_) {
      absl::StrAppend(&path, ".", level.field->name());
      if (level.field->is_repeated()) absl::StrAppend(&path, "[", level.index, "]");
    }
    error_ = absl::InvalidArgumentError(absl::StrCat(source_, ": byte ", position_, ": ", path, ": ", message));
    return false;
  }

  bool Truncated() { return Error("the file ends in the middle of a field; it is cut off or damaged"); }

  bool Varint(size_t end, uint64_t* value) {
    // Of one byte, as most are.
    if (position_ < end && static_cast<unsigned char>(bytes_[position_]) < 0x80) {
      *value = static_cast<unsigned char>(bytes_[position_++]);
      return true;
    }
    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (position_ >= end) return Truncated();
      const uint64_t byte = static_cast<unsigned char>(bytes_[position_]);
      if (shift == 63 && byte > 1) break;
      ++position_;
      *value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return Error("an integer of more than 64 bits");
  }

  bool CheckMessage(const WireMessage& type, size_t end) {
    if (path_.size() > kMaxMessageDepth) return Error(absl::StrCat("more than ", kMaxMessageDepth, " levels"));
    // How often each field and oneof was seen. No contract has this many fields; beyond, duplicates pass.
    std::array<int, 64> seen{};
    std::array<bool, 16> oneof_seen{};
    while (position_ < end) {
      const size_t start = position_;
      uint64_t tag = 0;
      if (!Varint(end, &tag)) return false;
      const uint64_t number = tag >> 3;
      const WireField* own = number < type.fields.size() ? &type.fields[number] : nullptr;
      if (own == nullptr || own->field == nullptr) {
        position_ = start;
        return Error(absl::StrCat("unknown field number ", number, "; written by a newer version, or damaged"));
      }
      const FieldDescriptor* field = own->field;
      int* count = own->index < static_cast<int>(seen.size()) ? &seen[own->index] : nullptr;
      path_.push_back({field, count == nullptr ? 0 : *count});
      if (count != nullptr && (*count)++ > 0 && !own->repeated) return Error("given twice");
      if (own->oneof >= 0 && own->oneof < static_cast<int>(oneof_seen.size())) {
        if (oneof_seen[own->oneof]) {
          return Error(absl::StrCat("another member of '", field->real_containing_oneof()->name(), "' is given"));
        }
        oneof_seen[own->oneof] = true;
      }
      if (!CheckField(*own, static_cast<int>(tag & 7), end)) return false;
      path_.pop_back();
    }
    return true;
  }

  bool CheckField(const WireField& field, int wire_type, size_t end) {
    const WireType own = field.wire_type;
    const bool packed = wire_type == kLength && own != kLength && field.repeated;
    if (wire_type != own && !packed) return Error(absl::StrCat("wire type ", wire_type, " instead of ", own));
    if (own != kLength && !packed) return CheckScalar(field, own, end);

    uint64_t length = 0;
    if (!Varint(end, &length)) return false;
    if (length > end - position_) return Truncated();
    const size_t value_end = position_ + static_cast<size_t>(length);
    if (packed) {
      while (position_ < value_end) {
        if (!CheckScalar(field, own, value_end)) return false;
      }
      return true;
    }
    if (field.message != nullptr) return CheckMessage(*field.message, value_end);
    if (field.type == FieldDescriptor::TYPE_STRING) {
      const absl::string_view problem = StringProblem(bytes_.substr(position_, value_end - position_));
      if (!problem.empty()) return Error(problem);
    }
    position_ = value_end;
    return true;
  }

  bool CheckScalar(const WireField& field, WireType wire_type, size_t end) {
    if (wire_type != kVarint) {
      const size_t size = wire_type == kFixed64 ? 8 : 4;
      if (end - position_ < size) return Truncated();
      if (field.has_zero_rule && bytes_.substr(position_, size) == kMinusZero) {
        return Error("-0 stands for another value; leave it out");
      }
      position_ += size;
      return true;
    }
    uint64_t value = 0;
    if (!Varint(end, &value)) return false;
    const int64_t as_signed = static_cast<int64_t>(value);
    const bool fits_int32 =
        as_signed >= std::numeric_limits<int32_t>::min() && as_signed <= std::numeric_limits<int32_t>::max();
    switch (field.type) {
      case FieldDescriptor::TYPE_BOOL:
        return value <= 1 || Error(absl::StrCat(value, " is no bool"));
      case FieldDescriptor::TYPE_INT32:
        return fits_int32 || Error(absl::StrCat(as_signed, " does not fit into 32 bits"));
      case FieldDescriptor::TYPE_UINT32:
      case FieldDescriptor::TYPE_SINT32:
        return value <= std::numeric_limits<uint32_t>::max() ||
               Error(absl::StrCat(value, " does not fit into 32 bits"));
      case FieldDescriptor::TYPE_ENUM:
        if (fits_int32 && field.values->FindValueByNumber(static_cast<int>(as_signed)) != nullptr) {
          return true;
        }
        return Error(absl::StrCat(as_signed, " is no ", field.values->name(),
                                  "; written by a newer version, or damaged", NameHelp("", ValueNames(*field.values))));
      default:
        return true;
    }
  }

  absl::string_view bytes_;
  absl::string_view source_;
  std::string root_;
  std::map<const Descriptor*, WireMessage> messages_;
  std::vector<Level> path_;
  size_t position_ = 0;
  absl::Status error_;
};

}  // namespace

absl::Status ReadWire(absl::string_view bytes, absl::string_view source, google::protobuf::Message* message) {
  message->Clear();
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", bytes.size(), " bytes; at most 2^31-1 are read"));
  }
  WEFT_RETURN_IF_ERROR(WireChecker(bytes, source).Check(*message->GetDescriptor()));
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": protobuf cannot read this"));
  }
  return absl::OkStatus();
}

}  // namespace weft
