#include "executor/numerics/exact192.h"

#include "executor/numerics/float_bits.h"

namespace weft::exec {

void ExactAccumulate(absl::Span<const double> x, absl::Span<Exact192> accumulators) {
  for (size_t i = 0; i < x.size(); ++i) exact192::AddNumber(accumulators[i], x[i]);
}

void ExactAccumulate(absl::Span<const float> x, absl::Span<Exact192> accumulators) {
  for (size_t i = 0; i < x.size(); ++i) exact192::AddNumber(accumulators[i], x[i]);
}

void ExactAccumulateBf16(absl::Span<const uint16_t> x, absl::Span<Exact192> accumulators) {
  for (size_t i = 0; i < x.size(); ++i) exact192::AddNumber(accumulators[i], FloatFromBf16(x[i]));
}

void ExactMerge(absl::Span<const Exact192> terms, absl::Span<Exact192> accumulators) {
  for (size_t i = 0; i < terms.size(); ++i) {
    const Exact192 term = terms[i];
    exact192::Merge(accumulators[i], term);
  }
}

double ExactRound(const Exact192& accumulator, int precision) {
  return exact192::Rounded(accumulator, precision, false);
}

double ExactRoundToOdd(const Exact192& accumulator) { return exact192::Rounded(accumulator, 53, true); }

}  // namespace weft::exec
