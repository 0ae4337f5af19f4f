// The learning rate of a step, computed from the recipe (rule P11: it is not part of the program).
#ifndef WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_
#define WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_

#include <cstdint>
#include <string>

#include "proto/recipe.pb.h"

namespace weft::exec {

// The learning rate of optimizer step `step`, from 0.
//   warm-up   step < warmup_steps:  peak * (step + 1) / warmup_steps
//   after it  f = (step - warmup_steps) / (steps - 1 - warmup_steps), at most 1:
//             constant  peak
//             linear    peak + (min - peak) * f
//             cosine    min + (peak - min) * (1 + cos(pi f)) / 2
// The first step after the warm-up has `peak`, and the recipe's last step has `min`. Steps beyond the recipe's last
// step keep its rate.
double LearningRateAt(const Recipe& recipe, int64_t step);

// Returns a note if a run of `steps` steps goes beyond the recipe's last step, where the learning rate has decayed;
// empty if there is nothing to note.
std::string NoteOnSteps(const Recipe& recipe, int64_t steps);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_
