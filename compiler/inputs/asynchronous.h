// Programs of schedules that never drain the pipeline (rule P14): PipeDream, PipeDream-2BW.
//
// They are made from segments without the rank level. Its passes read lifetimes off def-use chains within a repetition;
// here what a forward makes is often read in the next one, so buffers are persistent and used in turn: their places
// follow from the schedule alone, and so do the waits.
#ifndef WEFT_COMPILER_INPUTS_ASYNCHRONOUS_H_
#define WEFT_COMPILER_INPUTS_ASYNCHRONOUS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "compiler/inputs/plan_schedule.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// A repetition is the schedule's `order` so many times that the versions of weights come round.
struct AsynchronousPlan {
  PipelineSchedule schedule;
  // Of the schedule's `order`; of one optimizer step; of a repetition of the program.
  int32_t microbatches_per_order = 1;
  int32_t microbatches_per_step = 1;
  int32_t microbatches = 1;
  int32_t steps_per_repetition = 1;
};

// Nothing for a schedule that flushes. `recipe.steps` 0 is any number. `choice.params.microbatches` is that of one
// optimizer step. InvalidArgument names what a recipe or plan asks that such a program cannot do, with the nearest
// valid value.
absl::StatusOr<std::optional<AsynchronousPlan>> AsynchronousOf(const ScheduleChoice& choice, const Recipe& recipe,
                                                               const Plan& plan);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_ASYNCHRONOUS_H_
