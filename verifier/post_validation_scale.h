// Rule P15, what it says of loss scaling. Internal to the verifier.
#ifndef WEFT_VERIFIER_POST_VALIDATION_SCALE_H_
#define WEFT_VERIFIER_POST_VALIDATION_SCALE_H_

#include "verifier/index.h"
#include "verifier/post_validation_lists.h"

namespace weft::verify {

// LOSS_SCALE as it was before an update that may be taken back.
inline bool IsKeptScale(const Buffer& buffer) { return buffer.role() == LOSS_SCALE && buffer.version() > 0; }

// Of a scaled loss: VALIDATE divides by the scale of the step that it judges, and the update of the rest takes for NORM
// that of a gradient of zero, which clips nothing and undoes the scale. Expects that copies are kept as P15 says.
void CheckAssumedFactor(const Program& program, const Template& t, const PostValidationLists& lists,
                        Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_POST_VALIDATION_SCALE_H_
