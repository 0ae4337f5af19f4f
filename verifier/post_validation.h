// Rule P15: a program that takes optimizer steps back is equivalent to the two plain programs that it stands for.
#ifndef WEFT_VERIFIER_POST_VALIDATION_H_
#define WEFT_VERIFIER_POST_VALIDATION_H_

#include "verifier/index.h"
#include "verifier/matching.h"

namespace weft::verify {

// Checks what the fields alone show: whether the program may use post-validation, and the form of its lists.
void CheckPostValidationForm(const Program& program, Findings* findings);

// Checks that the program is equivalent to its plain programs. Expects that CheckPostValidationForm and CheckMatching
// found nothing, so that `matching` has a rendezvous for each transfer and collective.
void CheckPostValidation(const Index& index, const Matching& matching, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_POST_VALIDATION_H_
