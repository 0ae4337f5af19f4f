// Rule P15, what it says of weights that are gathered behind an optimizer step (ZeRO). Internal to the verifier.
#ifndef WEFT_VERIFIER_POST_VALIDATION_GATHERS_H_
#define WEFT_VERIFIER_POST_VALIDATION_GATHERS_H_

#include "verifier/index.h"
#include "verifier/post_validation_lists.h"

namespace weft::verify {

// Where updates may be taken back: what is gathered of one is gathered again of the update that takes its place, before
// anyone else reads it. Expects lists as SplitLists makes them.
void CheckGathersAgain(const Template& t, const PostValidationLists& lists, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_POST_VALIDATION_GATHERS_H_
