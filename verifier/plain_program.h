// The plain programs to which a post-validated program is equivalent (rule P15).
#ifndef WEFT_VERIFIER_PLAIN_PROGRAM_H_
#define WEFT_VERIFIER_PLAIN_PROGRAM_H_

#include "proto/program.pb.h"

namespace weft::verify {

// True if any action is done again after a wrong guess.
bool HasAgain(const Program& program);

// Returns the plain program for the case that the guess is right. With `again`, returns the program for the other case:
// the repeated actions replace the guess. In the plain program, norm and clipping come before the OPTIMIZER_STEP and
// CLEAR_GRADIENTS comes after it, all in the repetition of that step. So an action that waits for norm, clipping or
// CLEAR_GRADIENTS waits for those of the previous repetition. Expects that CheckPostValidation found nothing.
Program PlainProgram(const Program& program, bool again);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_PLAIN_PROGRAM_H_
