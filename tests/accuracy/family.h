// What is known of a family of measurements: how far its rows can be trusted, what ran them, what its memory figures
// are.
//
// A row states a plan; the framework decides the rest (catalog/runtimes). The table is of families and frameworks,
// never of one run or source.
#ifndef WEFT_TESTS_ACCURACY_FAMILY_H_
#define WEFT_TESTS_ACCURACY_FAMILY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/accuracy/measurement.h"

namespace weft {

struct Family {
  // The family's name begins with this.
  absl::string_view name;
  // "A": measured time, plan almost complete. "B": recompute, overlap or microbatch partly unstated. "C": single runs.
  absl::string_view tier;
  // Of the catalog.
  absl::string_view runtime;
  // Its gigabytes are what the allocator reserved, not what was allocated.
  bool reserved = false;
  // Its runs are by one framework and another.
  bool mixed = false;
};

// A family that is not listed has tier "" and the runtime that is common today.
const Family& FamilyOf(absl::string_view family);

// The runtime of the catalog that ran a row: its family's, or a variant of that which the row names: another framework,
// a compiler, 8-bit products, a kernel that is not used. Of a family that is not known here, that of the framework
// which the row or its family names; what was assumed is appended to `assumptions`.
std::string RuntimeOf(const Measurement& run, std::vector<std::string>* assumptions);

// Whether products are in 8 bits, of a precision as a source words it.
bool InEightBits(absl::string_view precision);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_FAMILY_H_
