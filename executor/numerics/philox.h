// Philox-4x32-10, the counter-based generator behind every random number of a run (Salmon, Moraes, Dror, Shaw:
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A number is a function of its key and counter alone, so it
// is the same in every plan. docs/kernels.md says what the counters mean.
#ifndef WEFT_EXECUTOR_NUMERICS_PHILOX_H_
#define WEFT_EXECUTOR_NUMERICS_PHILOX_H_

#include <array>
#include <cstdint>

namespace weft::exec {

// The purpose of a stream of random numbers. It is part of the key, so that purposes never share numbers.
enum class PhiloxPurpose : uint32_t {
  kInitialization = 1,
  kDropout = 2,
  kDataOrder = 3,
  kMasking = 4,
  kWeightRounding = 5,
  kFirstMomentRounding = 6,
  kSecondMomentRounding = 7,
  kDiffusionTime = 16,
  kDiffusionNoise = 17
};

struct PhiloxKey {
  uint32_t low = 0;
  uint32_t high = 0;
};

inline PhiloxKey MakePhiloxKey(uint64_t seed, PhiloxPurpose purpose) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(purpose)};
}

// Returns the four random 32-bit words that belong to one counter.
inline std::array<uint32_t, 4> Philox4x32(PhiloxKey key, std::array<uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key.low, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key.high, static_cast<uint32_t>(product0)};
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  return counter;
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_PHILOX_H_
