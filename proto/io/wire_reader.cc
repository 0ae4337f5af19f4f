#include "proto/io/wire_reader.h"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/io/content.h"
#include "proto/io/written_zero.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// https://protobuf.dev/programming-guides/encoding/
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

struct WireMessage;

// Properties of a field, kept because the readers need them again and again.
struct WireField {
  const FieldDescriptor* field = nullptr;
  WireType wire_type = kVarint;
  FieldDescriptor::Type type = FieldDescriptor::TYPE_INT32;
  // The index in the order of declaration.
  int index = 0;
  bool repeated = false;
  bool has_zero_rule = false;
  // True for integers: all their types take a number below 2^31.
  bool takes_small = false;
  // The index of its oneof in the message, -1 = it is in none.
  int oneof = -1;
  // Set for fields that are messages.
  const WireMessage* message = nullptr;
  const EnumDescriptor* values = nullptr;
};

struct WireMessage {
  // Indexed by field number; the numbers of contracts are small.
  std::vector<WireField> fields;
};

// Protobuf does not write a zero at all, except for -0, whose bytes these are.
constexpr absl::string_view kMinusZeroBytes("\0\0\0\0\0\0\0\x80", 8);

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

// The tables of some types and of the types within them. References to them stay valid.
class WireMessages {
 public:
  const WireMessage& Of(const Descriptor& type) {
    const auto [found, is_new] = messages_.try_emplace(&type);
    // References into a map stay valid.
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
      own.takes_small =
          own.wire_type == kVarint && own.type != FieldDescriptor::TYPE_BOOL && own.type != FieldDescriptor::TYPE_ENUM;
      own.has_zero_rule = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE && HasZeroRule(field);
      if (const auto* oneof = field.real_containing_oneof(); oneof != nullptr) own.oneof = oneof->index();
      if (own.type == FieldDescriptor::TYPE_MESSAGE) own.message = &Of(*field.message_type());
      if (own.type == FieldDescriptor::TYPE_ENUM) own.values = field.enum_type();
      message.fields[number] = own;
    }
    return message;
  }

 private:
  std::map<const Descriptor*, WireMessage> messages_;
};

// Walks the wire format along the descriptors. Stores nothing, but says whether protobuf would read all of it.
class WireChecker {
 public:
  WireChecker(absl::string_view bytes, absl::string_view source) : bytes_(bytes), source_(source) {}

  absl::Status Check(const Descriptor& type) {
    if (CheckMessage(messages_.Of(type), bytes_.size(), 0)) return absl::OkStatus();
    std::string path = RootName(type);
    for (auto level = path_.rbegin(); level != path_.rend(); ++level) {
      absl::StrAppend(&path, ".", level->field->name());
      if (level->field->is_repeated()) absl::StrAppend(&path, "[", level->index, "]");
    }
    return absl::InvalidArgumentError(absl::StrCat(source_, ": byte ", position_, ": ", path, ": ", problem_));
  }

 private:
  struct Level {
    const FieldDescriptor* field;
    int index;
  };

  // Each check returns true if the bytes are right. Otherwise it leaves `position_` at the problem.
  bool Error(absl::string_view problem) {
    problem_ = std::string(problem);
    return false;
  }

  bool Truncated() { return Error("the file ends in the middle of a field; it is cut off or damaged"); }

  bool Varint(size_t end, uint64_t* value) {
    // Most numbers have one byte.
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

  bool CheckMessage(const WireMessage& type, size_t end, int depth) {
    if (depth > kMaxMessageDepth) return Error(absl::StrCat("more than ", kMaxMessageDepth, " levels"));
    // How often each field was seen, and whether each oneof was. No contract has this many fields; beyond them,
    // duplicates pass.
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
      const int index = own->index < static_cast<int>(seen.size()) ? seen[own->index]++ : 0;
      if (CheckOnce(*own, index, &oneof_seen) && CheckField(*own, static_cast<int>(tag & 7), end, depth)) continue;
      path_.push_back({own->field, index});
      return false;
    }
    return true;
  }

  bool CheckOnce(const WireField& field, int index, std::array<bool, 16>* oneof_seen) {
    if (index > 0 && !field.repeated) return Error("given twice");
    if (field.oneof < 0 || field.oneof >= static_cast<int>(oneof_seen->size())) return true;
    if ((*oneof_seen)[field.oneof]) {
      return Error(absl::StrCat("another member of '", field.field->real_containing_oneof()->name(), "' is given"));
    }
    return (*oneof_seen)[field.oneof] = true;
  }

  bool CheckField(const WireField& field, int wire_type, size_t end, int depth) {
    const WireType own = field.wire_type;
    const bool packed = wire_type == kLength && own != kLength && field.repeated;
    if (wire_type != own && !packed) return Error(absl::StrCat("wire type ", wire_type, " instead of ", own));
    if (own != kLength && !packed) return CheckScalar(field, own, end);

    uint64_t length = 0;
    if (!Varint(end, &length)) return false;
    if (length > end - position_) return Truncated();
    const size_t value_end = position_ + static_cast<size_t>(length);
    if (packed) {
      // Most numbers have one byte.
      for (const char* const bytes = bytes_.data(); position_ < value_end;) {
        if (field.takes_small && static_cast<unsigned char>(bytes[position_]) < 0x80) {
          ++position_;
        } else if (!CheckScalar(field, own, value_end)) {
          return false;
        }
      }
      return true;
    }
    if (field.message != nullptr) return CheckMessage(*field.message, value_end, depth + 1);
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
      if (field.has_zero_rule && bytes_.substr(position_, size) == kMinusZeroBytes) {
        return Error("-0 stands for another value; leave it out");
      }
      position_ += size;
      return true;
    }
    uint64_t value = 0;
    if (!Varint(end, &value)) return false;
    if (value <= std::numeric_limits<int32_t>::max() && field.takes_small) return true;
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
  WireMessages messages_;
  size_t position_ = 0;
  // After an error: what is wrong, and the fields that lead to it, innermost first.
  std::string problem_;
  std::vector<Level> path_;
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
