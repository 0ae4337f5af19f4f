// Statistics of prediction errors.
#ifndef WEFT_TESTS_ACCURACY_STATISTICS_H_
#define WEFT_TESTS_ACCURACY_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace weft {

// Both functions return 0 for no values. The median of an even number of values is the mean of the middle two.
double Median(std::vector<double> values);
double Mean(absl::Span<const double> values);

struct RankAgreement {
  int64_t pairs = 0;
  double tau = 0;
  double regret = 0;
};

// Compares the order of plans by predicted time with their order by measured time.
//
// `tau` is Kendall's tau-b (Kendall 1945, "The treatment of ties in ranking problems", Biometrika 33(3)) over the pairs
// whose measured times differ by at least `tie` times the smaller one; 0 if there are no pairs. `regret` compares the
// measured time of the plan that is predicted to be fastest with the shortest measured time: their ratio minus 1. If
// several predictions are equally fast, the first counts.
RankAgreement CompareRanks(absl::Span<const double> measured, absl::Span<const double> predicted, double tie);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_STATISTICS_H_
