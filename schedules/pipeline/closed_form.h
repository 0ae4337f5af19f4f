// What the literature says a schedule takes, for pipelines of equal stages and free transfers. Tests hold the schedules
// against it; `weft schedule` prints it next to what it measured. Each schedule's file has its own.
#ifndef WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_
#define WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// numerator / denominator, not reduced; denominator > 0.
struct Ratio {
  int64_t numerator = 0;
  int64_t denominator = 1;

  // As numbers: 2/4 equals 1/2.
  friend bool operator==(const Ratio& a, const Ratio& b) {
    return static_cast<__int128>(a.numerator) * b.denominator == static_cast<__int128>(b.numerator) * a.denominator;
  }
};

// Nothing if the numerator does not fit, as with costs so large that TimeSchedule refuses them.
inline std::optional<Ratio> RatioIfItFits(__int128 numerator, int64_t denominator) {
  if (numerator > INT64_MAX || numerator < INT64_MIN) return std::nullopt;
  return Ratio{static_cast<int64_t>(numerator), denominator};
}

struct ClosedForm {
  // In the unit of params.costs. The bubble follows from it: every rank computes N (F + B) in the mean.
  std::optional<Ratio> makespan = {};
  // Longest over ranks from own first start to own last end.
  std::optional<Ratio> span = {};
  // Microbatches whose activations a rank holds at most, each counted as one whole rank's; empty = no formula.
  std::vector<Ratio> peak_activations = {};
  // `makespan` is what the schedule takes at most, not exactly.
  bool makespan_is_bound = false;
};

// Nothing where the formula's assumptions do not hold (its function says which). `params` are valid for the schedule.
using ClosedFormFn = std::optional<ClosedForm>(const ScheduleParams& params);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_
