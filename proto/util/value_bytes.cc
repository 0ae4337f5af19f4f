#include "proto/util/value_bytes.h"

#include "proto/util/units.h"

namespace weft {

std::optional<int64_t> ValueBytes(const Value& value) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  const std::optional<int64_t> elements = ElementCount(value.shape());
  const int64_t size = DTypeBytes(value.dtype());
  if (!elements || (size > 0 && *elements > kLimit / size)) return std::nullopt;
  return *elements * size;
}

}  // namespace weft
