// Formulas from the literature for the time and memory of a schedule with equal stages and free transfers. Tests
// compare the schedules with the formulas, and `weft schedule` prints them next to its measurement. Each schedule's
// file defines its own formulas.
#ifndef WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_
#define WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// A fraction, not reduced; denominator > 0.
struct Ratio {
  int64_t numerator = 0;
  int64_t denominator = 1;

  // Compares the values: 2/4 equals 1/2.
  friend bool operator==(const Ratio& a, const Ratio& b) {
    return static_cast<__int128>(a.numerator) * b.denominator == static_cast<__int128>(b.numerator) * a.denominator;
  }
};

// Returns nullopt if the numerator does not fit in int64_t. This happens with costs so large that TimeSchedule refuses
// them.
inline std::optional<Ratio> RatioIfItFits(__int128 numerator, int64_t denominator) {
  if (numerator > INT64_MAX || numerator < INT64_MIN) return std::nullopt;
  return Ratio{static_cast<int64_t>(numerator), denominator};
}

struct ClosedForm {
  // The makespan in the unit of params.costs. The bubble follows from the makespan, because every rank computes N (F +
  // B) on average.
  std::optional<Ratio> makespan = {};
  // The longest time of any rank from the start of its first slot to the end of its last slot.
  std::optional<Ratio> span = {};
  // For each rank, the most microbatches whose activations it holds, in units of one microbatch's activations in all
  // stages of one rank; empty = no formula.
  std::vector<Ratio> peak_activations = {};
  // True if `makespan` is an upper bound, not the exact value.
  bool makespan_is_bound = false;
};

// Returns nullopt if the formula's assumptions do not hold; the comment at each function lists them. `params` must be
// valid for the schedule.
using ClosedFormFn = std::optional<ClosedForm>(const ScheduleParams& params);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_
