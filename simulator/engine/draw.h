// Random numbers that are functions of counters, in integer arithmetic alone: the same on every machine, whatever is
// drawn before or beside them.
#ifndef WEFT_SIMULATOR_ENGINE_DRAW_H_
#define WEFT_SIMULATOR_ENGINE_DRAW_H_

#include <bit>
#include <cstdint>

namespace weft::sim {

// A place in a tree of counters: Draw(seed).At(run).At(rank).
// Source of the mixing: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64).
class Draw {
 public:
  explicit constexpr Draw(uint64_t seed) : state_(Mix(seed + kStep)) {}

  // Turned, so that At(a).At(b) is not At(b).At(a).
  constexpr Draw At(uint64_t counter) const { return Draw(std::rotl(state_, 23) + Mix(counter + kStep)); }

  // The i-th 64 bits of this place.
  constexpr uint64_t Bits(uint64_t i = 0) const { return Mix(state_ + (i + 1) * kStep); }

  // Whether something of this probability happens; always with 1, never with 0.
  constexpr bool Happens(double probability) const {
    return static_cast<double>(Bits() >> 11) < probability * static_cast<double>(uint64_t{1} << 53);
  }

  // A normal deviate in units of 2^-32 / kNormalDeviation: of 256 fair bits those that are set, less 128, and what is
  // even on [-1/2, 1/2), so that nothing is coarse (de Moivre, Laplace). Its variance is that of both, 64 + 1/12. Its
  // tails are a little thin: of what is beyond 4 standard deviations, 7 in 100 are missing.
  constexpr int64_t Normal() const {
    int64_t ones = -128;
    for (uint64_t i = 0; i < 4; ++i) ones += std::popcount(Bits(i));
    return ones * (int64_t{1} << 32) + static_cast<int64_t>(Bits(4) >> 32) - (int64_t{1} << 31);
  }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;

  static constexpr uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

// The square root of 64 + 1/12.
inline constexpr double kNormalDeviation = 8.005206639015219;

// A factor about 1, as parts of kOne: normal with a standard deviation, but never below an eighth.
class FactorDraw {
 public:
  static constexpr int64_t kOne = int64_t{1} << 30;

  // `deviation` is in [0, 1].
  explicit constexpr FactorDraw(double deviation)
      : scale_(static_cast<int64_t>(deviation / kNormalDeviation * (int64_t{1} << 24) + 0.5)) {}

  constexpr int64_t operator()(Draw draw) const {
    if (scale_ == 0) return kOne;
    const int64_t factor = kOne + ((draw.Normal() * scale_) >> 26);
    return factor < kOne / 8 ? kOne / 8 : factor;
  }

 private:
  // Of a deviate, in 2^-24.
  int64_t scale_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_DRAW_H_
