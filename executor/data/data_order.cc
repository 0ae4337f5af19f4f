#include "executor/data/data_order.h"

#include "executor/numerics/philox.h"

namespace weft::exec {

// A Feistel network is a permutation of the numbers of 2h bits whatever its round function is (Luby and Rackoff, SIAM
// J. Comput. 17(2), 1988). Values beyond the range pass through it again until one is inside ("cycle walking": Black
// and Rogaway, CT-RSA 2002). That makes it a permutation of [0, windows). The network has fewer than 4 * windows
// values, so this takes at most 4 passes on average.
int64_t WindowOfSample(uint64_t seed, int64_t windows, int64_t sample) {
  if (windows <= 1) return 0;
  const uint64_t epoch = static_cast<uint64_t>(sample / windows);
  uint64_t value = static_cast<uint64_t>(sample % windows);
  int half = 1;
  while (uint64_t{1} << (2 * half) < static_cast<uint64_t>(windows)) ++half;
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << half) - 1);
  const PhiloxKey key = MakePhiloxKey(seed, PhiloxPurpose::kDataOrder);
  do {
    uint32_t left = static_cast<uint32_t>(value >> half);
    uint32_t right = static_cast<uint32_t>(value) & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const uint32_t word =
          Philox4x32(key, {right, round, static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)})[0];
      const uint32_t next = left ^ (word & mask);
      left = right;
      right = next;
    }
    value = uint64_t{left} << half | right;
  } while (value >= static_cast<uint64_t>(windows));
  return static_cast<int64_t>(value);
}

}  // namespace weft::exec
