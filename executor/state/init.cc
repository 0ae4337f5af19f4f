#include "executor/state/init.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "executor/numerics/philox.h"

namespace weft::exec {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

// Returns a number in (0, 1]. It is never 0, so its logarithm is finite.
double Uniform(uint32_t high, uint32_t low) {
  return (static_cast<double>(uint64_t{high} << 32 | low) + 0.5) * 0x1p-64;
}

// Returns the normally distributed values of elements 2*pair and 2*pair + 1 (Box and Muller 1958).
std::array<double, 2> NormalPair(PhiloxKey key, uint64_t pair, uint32_t index) {
  const std::array<uint32_t, 4> words =
      Philox4x32(key, {static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32), index, 0});
  const double radius = std::sqrt(-2.0 * std::log(Uniform(words[0], words[1])));
  const double angle = kTwoPi * Uniform(words[2], words[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

void InitialValues(uint64_t seed, int64_t index, const LogicalTensor& tensor, int64_t first, absl::Span<float> out) {
  int64_t elements = 1;
  for (int64_t extent : tensor.shape()) elements *= extent;
  const int64_t inside = std::clamp<int64_t>(elements - first, 0, static_cast<int64_t>(out.size()));
  std::fill(out.begin() + inside, out.end(), 0.0f);
  if (tensor.init_normal() == 0) {
    std::fill(out.begin(), out.begin() + inside, static_cast<float>(tensor.init_constant()));
    return;
  }
  const PhiloxKey key = MakePhiloxKey(seed, PhiloxPurpose::kInitialization);
  for (int64_t i = 0; i < inside;) {
    const uint64_t element = static_cast<uint64_t>(first + i);
    const std::array<double, 2> pair = NormalPair(key, element / 2, static_cast<uint32_t>(index));
    if (element % 2 == 0) out[i++] = static_cast<float>(tensor.init_normal() * pair[0]);
    if (i < inside) out[i++] = static_cast<float>(tensor.init_normal() * pair[1]);
  }
}

}  // namespace weft::exec
