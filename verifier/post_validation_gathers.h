// Rule P15 for weights that are gathered after an optimizer step (ZeRO). Internal to the verifier.
#ifndef WEFT_VERIFIER_POST_VALIDATION_GATHERS_H_
#define WEFT_VERIFIER_POST_VALIDATION_GATHERS_H_

#include "verifier/index.h"
#include "verifier/post_validation_lists.h"

namespace weft::verify {

// For programs whose updates may be taken back: checks that the gathers after an update are repeated after the update
// that replaces it, before any other action reads the weights. Expects lists from SplitLists.
void CheckGathersAgain(const Template& t, const PostValidationLists& lists, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_POST_VALIDATION_GATHERS_H_
