#include "executor/numerics/stochastic_rounding.h"

#include <array>
#include <cstring>

#include "executor/numerics/float_bits.h"

namespace weft::exec {

void RoundAtRandom(const float* from, int64_t count, const RoundingNumbers& numbers, int64_t first_element, DType to,
                   void* target) {
  const PhiloxKey key = MakePhiloxKey(numbers.seed, numbers.purpose);
  std::array<uint32_t, 4> words = {};
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t element = static_cast<uint64_t>(first_element) + static_cast<uint64_t>(i), block = element / 8;
    if (i == 0 || element % 8 == 0) {
      words = Philox4x32(key, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                               static_cast<uint32_t>(numbers.tensor), static_cast<uint32_t>(numbers.step)});
    }
    const uint32_t random = words[element % 8 / 2] >> (element % 2 * 16) & 0xffff;
    const uint16_t bits = to == BF16 ? Bf16FromFloatAtRandom(from[i], random) : Fp16FromFloatAtRandom(from[i], random);
    memcpy(static_cast<char*>(target) + i * 2, &bits, sizeof(bits));
  }
}

}  // namespace weft::exec
