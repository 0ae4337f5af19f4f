#include "proto/io/wire_reader.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/io/content.h"
#include "proto/io/fast_message_check.h"
#include "proto/io/wire_message.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Checks the bytes of a message against the descriptors, without storing values. Finds out whether protobuf would read
// everything that the bytes say.
class WireChecker {
 public:
  WireChecker(absl::string_view bytes, absl::string_view source) : bytes_(bytes), source_(source) {}

  absl::Status Check(const Descriptor& type) {
    const WireMessage& root = messages_.Of(type);
    if (LooksRight(bytes_, root)) return absl::OkStatus();
    root_ = RootName(type);
    return CheckMessage(root, bytes_.size()) ? absl::OkStatus() : error_;
  }

 private:
  struct Level {
    const FieldDescriptor* field;
    int index;
  };

  // Each check returns true if the bytes are right; otherwise it sets `error_`.
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
    return Error("the integer has more than 64 bits");
  }

  bool CheckMessage(const WireMessage& type, size_t end) {
    if (path_.size() > kMaxMessageDepth) return Error(absl::StrCat("more than ", kMaxMessageDepth, " levels"));
    // Counts how often each field and each oneof occurs. No contract has more fields and oneofs than these arrays have
    // elements; for more, duplicates would not be found.
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
        return Error(
            absl::StrCat("unknown field number ", number, "; a newer weft wrote the file, or the file is damaged"));
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
      if (field.has_zero_rule && bytes_.substr(position_, size) == kMinusZeroBytes) {
        return Error("-0 would count as unset, so the default would apply; leave the field out");
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
        return value <= 1 || Error(absl::StrCat(value, " is not a bool"));
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
        return Error(absl::StrCat(as_signed, " is not a value of ", field.values->name(),
                                  "; a newer weft wrote the file, or the file is damaged",
                                  NameHelp("", ValueNames(*field.values))));
      default:
        return true;
    }
  }

  absl::string_view bytes_;
  absl::string_view source_;
  std::string root_;
  WireMessages messages_;
  std::vector<Level> path_;
  size_t position_ = 0;
  absl::Status error_;
};

}  // namespace

absl::Status ReadWire(absl::string_view bytes, absl::string_view source, google::protobuf::Message* message) {
  message->Clear();
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": the message has ", bytes.size(), " bytes; weft reads at most 2^31-1"));
  }
  WEFT_RETURN_IF_ERROR(WireChecker(bytes, source).Check(*message->GetDescriptor()));
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": protobuf cannot read this message"));
  }
  return absl::OkStatus();
}

}  // namespace weft
