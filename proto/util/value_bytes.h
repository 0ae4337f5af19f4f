// The size of a segment's value.
#ifndef WEFT_PROTO_UTIL_VALUE_BYTES_H_
#define WEFT_PROTO_UTIL_VALUE_BYTES_H_

#include <cstdint>
#include <optional>

#include "proto/program.pb.h"

namespace weft {

// Returns the bytes of a value: the number of its elements times the bytes of one element. Returns 0 if the type has no
// size. Returns nullopt if an extent is negative or there are more than 2^62 elements or bytes, which a proven program
// does not have.
std::optional<int64_t> ValueBytes(const Value& value);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_VALUE_BYTES_H_
