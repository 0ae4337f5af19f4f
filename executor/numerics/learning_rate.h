// The learning rate of a step, computed from the recipe (rule P11: it is not part of the program).
#ifndef WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_
#define WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_

#include <cstdint>
#include <string>

#include "proto/recipe.pb.h"

namespace weft::exec {

// Returns the learning rate of optimizer step `step`, from 0, by recipe.lr.
double LearningRateAt(const Recipe& recipe, int64_t step);

// Returns a note if a run of `steps` steps goes beyond the recipe's last step, where the learning rate has decayed;
// empty if there is nothing to note.
std::string NoteOnSteps(const Recipe& recipe, int64_t steps);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_
