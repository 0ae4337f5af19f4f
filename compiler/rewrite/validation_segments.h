// Makes the additional segments that a rank needs if updates do not wait for their norm (rule P15): the verdict, copies
// of the state that an update changes, the restoration of that state, and the clearing of gradients.
#ifndef WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_
#define WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"

namespace weft {

// How a template ends an optimizer step.
struct StepEnd {
  // Indices, in the template's body, of the OPTIMIZER_STEP and of the SCALE_GRADIENTS (-1 = none).
  int optimizer = -1, clip = -1;
  // True if updates may be taken back.
  bool repairs = false;
  // Bytes that the evaluation program occupies in the device's arena.
  int64_t evaluation_bytes = 0;
};

// A segment of the program, and the template's buffers for its operands.
struct AddedSegment {
  int index = -1;
  std::vector<int> operands;
};

struct ValidationSegments {
  // `clear` clears the gradients. `settle` clears them after the last step, and also sets the norms to zero. `keep` and
  // `restore` exist only if updates may be taken back.
  AddedSegment validate, keep, restore, clear, settle;
};

// Adds the segments to `program` and removes their steps from the optimizer's segment. Adds buffers for the kept state
// at the end of the arena. If updates may be taken back, the optimizer's inputs become persistent. `t` is a template of
// `program`. InvalidArgument states what the template lacks; the caller puts the template's name in front. On an error
// `program` and `t` may have been changed.
absl::StatusOr<ValidationSegments> MakeValidationSegments(const StepEnd& end, Program* program, Template* t);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_
