// Facts about a family of measurements: how reliable its rows are, which framework ran them, and what its memory
// figures mean.
//
// A row states a plan; the framework decides everything else (catalog/runtimes). The table has one entry per family or
// framework, never per run or source.
#ifndef WEFT_TESTS_ACCURACY_FAMILY_H_
#define WEFT_TESTS_ACCURACY_FAMILY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/accuracy/measurement.h"

namespace weft {

struct Family {
  // The entry matches families whose name begins with this text.
  absl::string_view name;
  // "A": measured time, plan almost complete. "B": recompute, overlap or microbatch partly unstated. "C": single runs.
  absl::string_view tier;
  // Name of a runtime in the catalog.
  absl::string_view runtime;
  // True if memory figures are the memory that the allocator reserved, not the memory that it allocated.
  bool reserved = false;
  // True if different frameworks ran the family's rows.
  bool mixed = false;
};

// Returns the family that matches. A family that is not listed has tier "" and the runtime that is common today.
const Family& FamilyOf(absl::string_view family);

// Returns the catalog's runtime for a row: the family's runtime, or the variant that the row names (another framework,
// a compiler, FP8 products, an unused kernel). For an unknown family, the runtime comes from the framework that the row
// or its family names. Appends what was assumed to `assumptions`.
std::string RuntimeOf(const Measurement& run, std::vector<std::string>* assumptions);

// True if `precision`, as a source words it, names 8-bit products.
bool InEightBits(absl::string_view precision);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_FAMILY_H_
