// Random numbers that depend only on counters. Their arithmetic, on integers and a little on doubles, gives the same
// results everywhere. So they are the same on every machine, whatever else is drawn before or beside them.
#ifndef WEFT_SIMULATOR_ENGINE_DRAW_H_
#define WEFT_SIMULATOR_ENGINE_DRAW_H_

#include <bit>
#include <cstdint>

namespace weft::sim {

// A node in a tree of counters: Draw(seed).At(run).At(rank) is the node for a rank in a run. Source of the mixing:
// Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64).
class Draw {
 public:
  explicit constexpr Draw(uint64_t seed) : state_(Mix(seed + kStep)) {}

  // The rotation makes At(a).At(b) differ from At(b).At(a).
  constexpr Draw At(uint64_t counter) const { return Draw(std::rotl(state_, 23) + Mix(counter + kStep)); }

  // Returns the i-th 64 random bits of this node.
  constexpr uint64_t Bits(uint64_t i = 0) const { return Mix(state_ + (i + 1) * kStep); }

  // True with this probability: always if it is 1, never if it is 0.
  constexpr bool Happens(double probability) const {
    return static_cast<double>(Bits() >> 11) < probability * static_cast<double>(uint64_t{1} << 53);
  }

  // Returns a normal deviate in units of 2^-32 / kNormalDeviation: the number of set bits among 256 fair bits, minus
  // 128, plus a uniform number on [-1/2, 1/2) that fills the gaps between integers (de Moivre, Laplace). The variance
  // of the sum is 64 + 1/12. The tails are a little thin: of the deviates beyond 4 standard deviations, 7 % are
  // missing.
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

// Draws factors around 1 in units of 1 / kOne: normally distributed with a given standard deviation, but at least 1/8.
class FactorDraw {
 public:
  static constexpr int64_t kOne = int64_t{1} << 30;

  // `deviation` is the standard deviation, in [0, 1].
  explicit constexpr FactorDraw(double deviation)
      : scale_(static_cast<int64_t>(deviation / kNormalDeviation * (int64_t{1} << 24) + 0.5)) {}

  constexpr int64_t operator()(Draw draw) const {
    if (scale_ == 0) return kOne;
    const int64_t factor = kOne + ((draw.Normal() * scale_) >> 26);
    return factor < kOne / 8 ? kOne / 8 : factor;
  }

 private:
  // Standard deviation divided by kNormalDeviation, in units of 2^-24.
  int64_t scale_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_DRAW_H_
