// Times and choices for tests that depend only on the values that identify them, like a table that needs no filling.
#ifndef WEFT_SIMULATOR_ENGINE_HASH_BELOW_TESTING_H_
#define WEFT_SIMULATOR_ENGINE_HASH_BELOW_TESTING_H_

#include <cstdint>
#include <initializer_list>

namespace weft::sim {

// Returns a number in [0, bound) that is always the same for the same arguments.
inline int64_t HashBelow(uint64_t seed, std::initializer_list<int64_t> values, int64_t bound) {
  uint64_t hash = seed + 1;
  for (const int64_t value : values) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return static_cast<int64_t>(hash % static_cast<uint64_t>(bound));
}

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_HASH_BELOW_TESTING_H_
