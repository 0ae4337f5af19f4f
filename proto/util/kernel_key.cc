#include "proto/util/kernel_key.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace weft {

bool ParseKernelKey(absl::string_view key, KernelKeyParts* parts) {
  const size_t first = key.find(' '), last = key.rfind(' ');
  if (first == absl::string_view::npos || first == last || first == 0) return false;
  parts->kernel = key.substr(0, first);
  parts->form = key.substr(0, last);
  parts->extents.clear();
  for (const absl::string_view extent : absl::StrSplit(key.substr(last + 1), absl::ByAnyChar("x,"))) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(extent, &value) || value < 1) return false;
    parts->extents.push_back(value);
  }
  return true;
}

}  // namespace weft
