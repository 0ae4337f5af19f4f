#include "proto/io/fast_message_check.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "proto/io/content.h"

namespace weft {
namespace {

// Each of these functions returns the position after the bytes that it has checked, or null if it does not accept the
// bytes.

const char* LongVarint(const char* at, const char* end, uint64_t* value) {
  *value = 0;
  // Read up to nine bytes of seven bits. Only numbers of 2^63 or more have a tenth byte.
  for (int shift = 0; shift < 63; shift += 7) {
    if (at >= end) return nullptr;
    const uint64_t byte = static_cast<unsigned char>(*at++);
    *value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return at;
  }
  if (at >= end || static_cast<unsigned char>(*at) > 1) return nullptr;
  *value |= static_cast<uint64_t>(*at++) << 63;
  return at;
}

inline const char* Varint(const char* at, const char* end, uint64_t* value) {
  // Most numbers have one byte, many of the others two.
  if (at < end && static_cast<unsigned char>(*at) < 0x80) {
    *value = static_cast<unsigned char>(*at);
    return at + 1;
  }
  if (end - at >= 2 && static_cast<unsigned char>(at[1]) < 0x80) {
    *value = (static_cast<unsigned char>(at[0]) & 0x7f) | uint64_t{static_cast<unsigned char>(at[1])} << 7;
    return at + 2;
  }
  return LongVarint(at, end, value);
}

inline const char* Length(const char* at, const char* end, size_t* length) {
  uint64_t value = 0;
  at = Varint(at, end, &value);
  if (at == nullptr || value > static_cast<uint64_t>(end - at)) return nullptr;
  *length = static_cast<size_t>(value);
  return at;
}

inline bool IsNumberOf(const WireTag& tag, uint64_t value) {
  const bool fits_int32 = static_cast<int64_t>(value) == static_cast<int32_t>(value);
  switch (tag.content) {
    case Content::kInt64:
      return true;
    case Content::kInt32:
      return fits_int32;
    case Content::kUint32:
      return value <= std::numeric_limits<uint32_t>::max();
    case Content::kBool:
      return value <= 1;
    case Content::kEnum:
      if (value < 64) return (tag.small_values >> value & 1) != 0;
      return fits_int32 && tag.field->values->FindValueByNumber(static_cast<int>(value)) != nullptr;
    default:
      return false;
  }
}

bool TakesSmallNumbers(Content content) {
  return content == Content::kInt64 || content == Content::kInt32 || content == Content::kUint32;
}

inline const char* Number(const WireTag& tag, const char* at, const char* end) {
  uint64_t value = 0;
  at = Varint(at, end, &value);
  return at != nullptr && IsNumberOf(tag, value) ? at : nullptr;
}

const char* Fixed(const WireTag& tag, const char* at, const char* end) {
  const size_t size = tag.content == Content::kFixed64 ? 8 : 4;
  if (static_cast<size_t>(end - at) < size) return nullptr;
  if (tag.has_zero_rule && absl::string_view(at, size) == kMinusZeroBytes) return nullptr;
  return at + size;
}

const char* Packed(const WireTag& tag, const char* at, const char* end) {
  size_t length = 0;
  at = Length(at, end, &length);
  if (at == nullptr) return nullptr;
  const char* const value_end = at + length;
  const bool fixed = tag.content == Content::kFixed64 || tag.content == Content::kFixed32;
  const bool small = TakesSmallNumbers(tag.content);
  while (at != nullptr && at < value_end) {
    // Check eight numbers of one byte at a time.
    uint64_t word = 0;
    if (small && value_end - at >= static_cast<std::ptrdiff_t>(sizeof(word))) {
      std::memcpy(&word, at, sizeof(word));
      if ((word & 0x8080808080808080) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    at = fixed ? Fixed(tag, at, value_end) : Number(tag, at, value_end);
  }
  return at;
}

const char* Message(const WireMessage& type, const char* at, const char* end, size_t depth) {
  if (depth > kMaxMessageDepth) return nullptr;
  uint64_t seen = 0;
  while (at != nullptr && at < end) {
    uint64_t number = 0;
    at = Varint(at, end, &number);
    if (at == nullptr || number >= type.tags.size()) return nullptr;
    const WireTag& tag = type.tags[number];
    if ((seen & tag.once) != 0) return nullptr;
    seen |= tag.once;
    size_t length = 0;
    switch (tag.content) {
      case Content::kInt64:
      case Content::kInt32:
      case Content::kUint32:
      case Content::kBool:
      case Content::kEnum:
        at = tag.packed ? Packed(tag, at, end) : Number(tag, at, end);
        break;
      case Content::kFixed64:
      case Content::kFixed32:
        at = tag.packed ? Packed(tag, at, end) : Fixed(tag, at, end);
        break;
      case Content::kString:
        at = Length(at, end, &length);
        if (at == nullptr || !StringProblem({at, length}).empty()) return nullptr;
        at += length;
        break;
      case Content::kMessage:
        at = Length(at, end, &length);
        if (at == nullptr) return nullptr;
        at = Message(*tag.message, at, at + length, depth + 1);
        break;
      case Content::kBytes:
        at = Length(at, end, &length);
        if (at == nullptr) return nullptr;
        at += length;
        break;
      case Content::kUnknown:
        return nullptr;
    }
  }
  return at;
}

}  // namespace

bool LooksRight(absl::string_view bytes, const WireMessage& type) {
  // An empty message may have a null address.
  return bytes.empty() || Message(type, bytes.data(), bytes.data() + bytes.size(), 0) != nullptr;
}

}  // namespace weft
