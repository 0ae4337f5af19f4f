// The size of a segment's value.
#ifndef WEFT_PROTO_UTIL_VALUE_BYTES_H_
#define WEFT_PROTO_UTIL_VALUE_BYTES_H_

#include <cstdint>
#include <optional>

#include "proto/program.pb.h"

namespace weft {

// Elements times the bytes of one; 0 of a type that has none, nothing if an extent is negative or there are more than
// 2^62 elements or bytes. Of a program that is proven there is always something.
std::optional<int64_t> ValueBytes(const Value& value);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_VALUE_BYTES_H_
