// Reads and writes the integers in the headers of binary files: little-endian, of 1 to 8 bytes.
#ifndef WEFT_PROTO_IO_LITTLE_ENDIAN_H_
#define WEFT_PROTO_IO_LITTLE_ENDIAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

// The integer that `bytes` (at most 8) encode.
inline uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

// Appends the lowest `bytes` bytes of `value`.
inline void AppendLittleEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) *out += static_cast<char>(value >> (8 * i));
}

}  // namespace weft

#endif  // WEFT_PROTO_IO_LITTLE_ENDIAN_H_
