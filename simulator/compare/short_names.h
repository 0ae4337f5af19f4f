// Shortens names of files for tables: keeps enough of the ends of the names to tell them apart.
#ifndef WEFT_SIMULATOR_COMPARE_SHORT_NAMES_H_
#define WEFT_SIMULATOR_COMPARE_SHORT_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace weft::sim {

// Returns `names` in the form of Printable (proto/util/printable.h). A name of more than `width` characters becomes an
// ellipsis and its last width - 1 characters. If two different names would then look alike, all names keep as many more
// characters as needed. `width` must be at least 1.
std::vector<std::string> ShortNames(const std::vector<std::string>& names, size_t width);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COMPARE_SHORT_NAMES_H_
