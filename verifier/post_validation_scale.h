// Rule P15 for loss scaling. Internal to the verifier.
#ifndef WEFT_VERIFIER_POST_VALIDATION_SCALE_H_
#define WEFT_VERIFIER_POST_VALIDATION_SCALE_H_

#include "verifier/index.h"
#include "verifier/post_validation_lists.h"

namespace weft::verify {

// True for the buffer that keeps LOSS_SCALE as it was before an update that may be taken back.
inline bool IsKeptScale(const Buffer& buffer) { return buffer.role() == LOSS_SCALE && buffer.version() > 0; }

// With a scaled loss, the update uses an assumed factor until VALIDATE judges it. Checks that VALIDATE divides by the
// scale of the step that it judges, and that the update reads the NORM of a zero gradient, which clips nothing and
// divides by the scale. Expects copies as P15 requires.
void CheckAssumedFactor(const Program& program, const Template& t, const PostValidationLists& lists,
                        Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_POST_VALIDATION_SCALE_H_
