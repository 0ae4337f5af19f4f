// How fast an asynchronous schedule goes once it is going.
#ifndef WEFT_SCHEDULES_PIPELINE_PERIOD_H_
#define WEFT_SCHEDULES_PIPELINE_PERIOD_H_

#include <cstdint>

#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/slot_times.h"

namespace weft {

struct Period {
  // Time that so many repetitions add; 0 if none was found.
  int64_t time = 0;
  int64_t repetitions = 1;
};

// Runs repetitions until one starts as an earlier one did, only later: from there on, everything repeats. Gives up
// after kPeriodSearch (timing.h) repetitions, or fewer of very long lists. The schedule is asynchronous and checked.
Period FindPeriod(const PipelineSchedule& schedule, int microbatches, const UnitCosts& costs);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_PERIOD_H_
