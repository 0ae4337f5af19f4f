// CRC32C (Castagnoli): polynomial 0x1EDC6F41, bits reversed, initial value and final XOR 0xFFFFFFFF.
// Source: RFC 3720, section 12.1 and appendix B.4 (test vectors).
#ifndef WEFT_PROTO_IO_CRC32C_H_
#define WEFT_PROTO_IO_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {

uint32_t Crc32c(absl::string_view bytes);

// Returns the CRC of a + b, given the CRC of a: Crc32cExtend(Crc32c(a), b).
uint32_t Crc32cExtend(uint32_t crc, absl::string_view bytes);

}  // namespace weft

#endif  // WEFT_PROTO_IO_CRC32C_H_
