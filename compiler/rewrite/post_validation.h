// Makes a program step its optimizers before the gradient norm is known (rule P15).
#ifndef WEFT_COMPILER_REWRITE_POST_VALIDATION_H_
#define WEFT_COMPILER_REWRITE_POST_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace weft {

// Rewrites `program`, which must be as the exporter made it, with its evaluation program if it has one, and not yet
// post-validated. If the program cannot be rewritten, the error is an InvalidArgument that names plan.post_validation.
absl::Status PostValidate(Program* program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_POST_VALIDATION_H_
