#include "executor/numerics/diffusion.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "executor/numerics/philox.h"

namespace weft::exec {
namespace {

constexpr double kPi = 3.14159265358979323846264338327950288;

// In (0, 1]: never 0, so that its logarithm is finite.
double Uniform(uint32_t high, uint32_t low) {
  return (static_cast<double>(uint64_t{high} << 32 | low) + 0.5) * 0x1p-64;
}

// Returns f(t) of the cosine schedule (Nichol and Dhariwal 2021, eq. 17) for t / T = `part`. The share of the variance
// that is left is f(t) / f(0).
double Cosine(double part) {
  const double cosine = std::cos((part + 0.008) / 1.008 * kPi / 2);
  return cosine * cosine;
}

}  // namespace

int64_t TimestepOfSample(uint64_t seed, int64_t sample, int64_t diffusion_steps) {
  const auto s = static_cast<uint64_t>(sample);
  const uint32_t word = Philox4x32(MakePhiloxKey(seed, PhiloxPurpose::kDiffusionTime),
                                   {0, 0, static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)})[0];
  return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(diffusion_steps)) >> 32);
}

void NoiseOfSample(uint64_t seed, int64_t sample, int64_t first, absl::Span<double> out) {
  const auto s = static_cast<uint64_t>(sample);
  const PhiloxKey key = MakePhiloxKey(seed, PhiloxPurpose::kDiffusionNoise);
  for (size_t i = 0; i < out.size();) {
    const uint64_t element = static_cast<uint64_t>(first) + i, pair = element / 2;
    const std::array<uint32_t, 4> words =
        Philox4x32(key, {static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32), static_cast<uint32_t>(s),
                         static_cast<uint32_t>(s >> 32)});
    const double radius = std::sqrt(-2.0 * std::log(Uniform(words[0], words[1])));
    const double angle = 2 * kPi * Uniform(words[2], words[3]);
    if (element % 2 == 0) out[i++] = radius * std::cos(angle);
    if (i < out.size()) out[i++] = radius * std::sin(angle);
  }
}

double SignalLevel(int64_t diffusion_steps, bool cosine_schedule, int64_t timestep) {
  const double steps = static_cast<double>(diffusion_steps);
  double left = 1;
  for (int64_t i = 0; i <= timestep; ++i) {
    const double t = static_cast<double>(i);
    double beta;
    if (cosine_schedule) {
      beta = 1 - Cosine((t + 1) / steps) / Cosine(t / steps);
    } else {
      const double low = 1e-4 * (1000 / steps), high = 0.02 * (1000 / steps);
      beta = diffusion_steps > 1 ? low + (high - low) * (t / (steps - 1)) : low;
    }
    left *= 1 - std::min(beta, 0.999);
  }
  return left;
}

}  // namespace weft::exec
