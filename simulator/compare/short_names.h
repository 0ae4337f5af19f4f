// Names of files in tables: as much of their ends as tells them apart.
#ifndef WEFT_SIMULATOR_COMPARE_SHORT_NAMES_H_
#define WEFT_SIMULATOR_COMPARE_SHORT_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace weft::sim {

// `names` as Printable (proto/util/printable.h) shows them; of those of more than `width` characters an ellipsis and
// the last width - 1. Where two that differ would then look alike, all keep as many more as it takes. `width` is at
// least 1.
std::vector<std::string> ShortNames(const std::vector<std::string>& names, size_t width);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COMPARE_SHORT_NAMES_H_
