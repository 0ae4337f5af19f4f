// The plain programs that a post-validated program stands for (rule P15).
#ifndef WEFT_VERIFIER_PLAIN_PROGRAM_H_
#define WEFT_VERIFIER_PLAIN_PROGRAM_H_

#include "proto/program.pb.h"

namespace weft::verify {

// True if any action is done again after a wrong guess.
bool HasAgain(const Program& program);

// Returns the plain program in which the guess stays, or (`again`) the repeated actions replace it. Norm and clipping
// are before the OPTIMIZER_STEP, and CLEAR_GRADIENTS after it. So an action that waits for them waits for those of the
// repetition before. Expects that CheckPostValidation found nothing.
Program PlainProgram(const Program& program, bool again);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_PLAIN_PROGRAM_H_
