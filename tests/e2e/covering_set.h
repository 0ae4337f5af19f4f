// A small set of choices that tries every pair of settings.
#ifndef WEFT_TESTS_E2E_COVERING_SET_H_
#define WEFT_TESTS_E2E_COVERING_SET_H_

#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

// One level (the index of a value) for each factor (a setting).
using Choice = std::vector<int>;

// Returns valid choices that contain every pair of levels of two factors at least once, except pairs for which 20,000
// random choices with the pair are all invalid. `levels` has the number of levels of each factor. Deterministic: the
// same arguments give the same choices.
std::vector<Choice> CoveringSet(const std::vector<int>& levels, const std::function<bool(const Choice&)>& valid,
                                uint32_t seed);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_COVERING_SET_H_
