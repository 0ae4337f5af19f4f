// Few choices that try every two settings together.
#ifndef WEFT_TESTS_E2E_COVERING_SET_H_
#define WEFT_TESTS_E2E_COVERING_SET_H_

#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

// For each factor, which of its levels.
using Choice = std::vector<int>;

// Valid choices among which every two levels of two factors come together at least once, but for pairs that none of
// 20,000 random choices with both is valid with. `levels` has the number of levels of each factor. The same for the
// same arguments.
std::vector<Choice> CoveringSet(const std::vector<int>& levels, const std::function<bool(const Choice&)>& valid,
                                uint32_t seed);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_COVERING_SET_H_
