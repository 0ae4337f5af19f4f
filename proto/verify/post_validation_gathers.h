// Rule P15, what it says of weights that are gathered behind an optimizer step (ZeRO). Internal to the verifier.
#ifndef WEFT_PROTO_VERIFY_POST_VALIDATION_GATHERS_H_
#define WEFT_PROTO_VERIFY_POST_VALIDATION_GATHERS_H_

#include "proto/verify/index.h"
#include "proto/verify/post_validation_lists.h"

namespace weft::verify {

// Where updates may be taken back: what is gathered of one is gathered again of the update that takes its place, before
// anyone else reads it. Expects lists as SplitLists makes them.
void CheckGathersAgain(const Template& t, const PostValidationLists& lists, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_PROTO_VERIFY_POST_VALIDATION_GATHERS_H_
