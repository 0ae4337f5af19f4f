// Finds how fast an asynchronous schedule runs in steady state.
#ifndef WEFT_SCHEDULES_PIPELINE_PERIOD_H_
#define WEFT_SCHEDULES_PIPELINE_PERIOD_H_

#include <cstdint>

#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/slot_times.h"

namespace weft {

struct Period {
  // The time that `repetitions` repetitions add; 0 if no period was found.
  int64_t time = 0;
  int64_t repetitions = 1;
};

// Runs repetitions until one starts in the same state as an earlier one. From there on, everything repeats. Gives up
// after kPeriodSearch (timing.h) repetitions, or fewer if the lists are very long. The schedule must be asynchronous
// and checked.
Period FindPeriod(const PipelineSchedule& schedule, int microbatches, const UnitCosts& costs);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_PERIOD_H_
