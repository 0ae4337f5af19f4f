// What the literature says a schedule takes, for pipelines of equal stages and free transfers. Tests hold the schedules
// against it; `weft schedule` prints it next to what it measured.
#ifndef WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_
#define WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// numerator / denominator, not reduced.
struct Ratio {
  int64_t numerator = 0;
  int64_t denominator = 1;

  // As numbers: 2/4 equals 1/2.
  friend bool operator==(const Ratio& a, const Ratio& b) {
    return static_cast<__int128>(a.numerator) * b.denominator == static_cast<__int128>(b.numerator) * a.denominator;
  }
};

struct ClosedForm {
  // In the unit of params.forward and params.backward.
  Ratio makespan;
  // Idle time / makespan, and idle time / busy time, over all ranks.
  Ratio bubble_ratio;
  Ratio bubble_over_ideal;
  // Microbatches whose activations a rank holds at most.
  std::vector<Ratio> peak_activations;
};

// The formulas of the named schedule; nothing for one without. `params` must be valid (CheckParams).
std::optional<ClosedForm> FindClosedForm(absl::string_view schedule, const ScheduleParams& params);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_CLOSED_FORM_H_
