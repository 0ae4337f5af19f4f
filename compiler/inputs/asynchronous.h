// Programs of schedules that never drain the pipeline (rule P14): PipeDream, PipeDream-2BW.
//
// These programs are made directly from segments, without the passes of the rank level. Those passes derive the
// lifetimes of buffers from def-use chains within a repetition, but here the next repetition often reads the results of
// a forward. Buffers are therefore persistent, and successive microbatches use them in turn. Their offsets and the
// waits follow from the schedule alone.
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

// The schedule, and how many microbatches a repetition of the program has. A repetition runs the schedule's `order`
// once or more, until the next repetition can begin with the same version of the weights.
struct AsynchronousPlan {
  PipelineSchedule schedule;
  // Number of microbatches in the schedule's `order`, in one optimizer step, and in a repetition of the program.
  int32_t microbatches_per_order = 1;
  int32_t microbatches_per_step = 1;
  int32_t microbatches = 1;
  int32_t steps_per_repetition = 1;
};

// Returns nullopt for a schedule that flushes. `recipe.steps` = 0 stands for any number. `choice.params.microbatches`
// counts the microbatches of one optimizer step. InvalidArgument names the field of the recipe or plan that such a
// program cannot support, and the nearest valid value.
absl::StatusOr<std::optional<AsynchronousPlan>> AsynchronousOf(const ScheduleChoice& choice, const Recipe& recipe,
                                                               const Plan& plan);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_ASYNCHRONOUS_H_
