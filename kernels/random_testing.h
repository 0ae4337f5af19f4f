// Random numbers for tests.
#ifndef WEFT_KERNELS_RANDOM_TESTING_H_
#define WEFT_KERNELS_RANDOM_TESTING_H_

#include <cstdint>
#include <random>

namespace weft::kernels {

// The same numbers for the same seed on every machine: std distributions differ between libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // Returns a number in [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  // True with probability 1/n.
  bool OneIn(int n) { return Between(0, n - 1) == 0; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_RANDOM_TESTING_H_
