#include "proto/io/crc32c.h"

#include <array>
#include <cstring>

namespace weft {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b] = CRC of byte b followed by k zero bytes, so that eight bytes are processed at once ("slicing by 8":
// Kounavis and Berry, ISCC 2005).
constexpr Tables MakeTables() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    tables[0][b] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (int b = 0; b < 256; ++b) tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

#if defined(__x86_64__)
// x86-64 processors since 2008 have an instruction for this polynomial. For fewer than kLong bytes, the instruction is
// no faster than the tables.
constexpr size_t kLong = 64;

__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(uint32_t crc, absl::string_view bytes) {
  const char* p = bytes.data();
  size_t left = bytes.size();
  uint64_t wide = ~crc;
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof(word));
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; left > 0; --left, ++p) crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(*p));
  return ~crc;
}
#endif

}  // namespace

uint32_t Crc32cExtend(uint32_t crc, absl::string_view bytes) {
#if defined(__x86_64__)
  if (bytes.size() >= kLong && __builtin_cpu_supports("sse4.2")) return ExtendByInstruction(crc, bytes);
#endif
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  crc = ~crc;
  for (; left >= 8; left -= 8, p += 8) {
    const uint32_t low = crc ^ (uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24);
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][p[4]] ^ kTables[2][p[5]] ^ kTables[1][p[6]] ^ kTables[0][p[7]];
  }
  for (; left > 0; --left, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

uint32_t Crc32c(absl::string_view bytes) { return Crc32cExtend(0, bytes); }

}  // namespace weft
