// How far predictions are from measurements.
#ifndef WEFT_TESTS_ACCURACY_STATISTICS_H_
#define WEFT_TESTS_ACCURACY_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace weft {

// 0 of nothing; the mean of the middle two of an even number.
double Median(std::vector<double> values);
double Mean(absl::Span<const double> values);

struct RankAgreement {
  int64_t pairs = 0;
  double tau = 0;
  double regret = 0;
};

// Of plans with times that were measured and predicted, alike in order: Kendall's tau-b (Kendall 1945, "The treatment
// of ties in ranking problems", Biometrika 33(3)) over the pairs whose measured times differ by `tie` or more of the
// smaller one, and how much longer the plan that is predicted fastest was measured to take than the best. Of several
// that are predicted alike, the first. tau is 0 without pairs.
RankAgreement CompareRanks(absl::Span<const double> measured, absl::Span<const double> predicted, double tie);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_STATISTICS_H_
