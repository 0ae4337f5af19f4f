// Formats figures for people: three to four digits and a unit.
#ifndef WEFT_PROTO_UTIL_UNITS_TEXT_H_
#define WEFT_PROTO_UTIL_UNITS_TEXT_H_

#include <cstdint>
#include <string>

namespace weft {

// Formats as "512 B", "1.5 KiB", "12.34 GiB".
std::string BytesText(int64_t bytes);
// Formats as "1.234 s", "12.3 ms", "45 us", "0 s".
std::string SecondsText(double seconds);
// Formats as "12.3 M", "4.56 T", "789".
std::string CountText(double count);
// Formats as "+3.2 %", "-12.0 %".
std::string SignedPercentText(double ratio);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_UNITS_TEXT_H_
