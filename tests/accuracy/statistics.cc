#include "tests/accuracy/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weft {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Mean(absl::Span<const double> values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

RankAgreement CompareRanks(absl::Span<const double> measured, absl::Span<const double> predicted, double tie) {
  RankAgreement agreement;
  int64_t difference = 0, tied = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double low = std::min(measured[i], measured[j]), high = std::max(measured[i], measured[j]);
      if (high < low * (1 + tie)) continue;
      ++agreement.pairs;
      if (predicted[i] == predicted[j]) {
        ++tied;
      } else {
        difference += (measured[i] < measured[j]) == (predicted[i] < predicted[j]) ? 1 : -1;
      }
    }
  }
  // Tau-b corrects for ties on both sides. No counted pair is tied in the measured times, so only ties in the predicted
  // times are subtracted.
  const double untied = static_cast<double>(agreement.pairs - tied);
  if (untied > 0)
    agreement.tau = static_cast<double>(difference) / std::sqrt(static_cast<double>(agreement.pairs) * untied);
  if (measured.empty()) return agreement;
  const size_t chosen = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  agreement.regret = measured[chosen] / *std::min_element(measured.begin(), measured.end()) - 1;
  return agreement;
}

}  // namespace weft
