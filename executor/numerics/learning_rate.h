// The learning rate of a step, computed from the recipe (rule P11: it is not part of the program).
#ifndef WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_
#define WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_

#include <cstdint>
#include <string>

#include "proto/recipe.pb.h"

namespace weft::exec {

// Returns the learning rate of optimizer step `step` (counted from 0), as recipe.lr describes it.
double LearningRateAt(const Recipe& recipe, int64_t step);

// Returns a note if a run of `steps` steps continues after the recipe's last step, where the decay of the learning rate
// has ended. Returns an empty text if there is nothing to note.
std::string NoteOnSteps(const Recipe& recipe, int64_t steps);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_LEARNING_RATE_H_
