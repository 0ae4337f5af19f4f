// Makes the segments that a rank needs besides its optimizer's if updates do not wait for their norm (rule P15): the
// verdict, copies of the state that an update changes, their restoration, and cleared gradients.
#ifndef WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_
#define WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"

namespace weft {

// How a template ends an optimizer step.
struct StepEnd {
  // Indices in the body of its OPTIMIZER_STEP, and of its SCALE_GRADIENTS (-1 = none).
  int optimizer = -1, clip = -1;
  // True if updates may be taken back.
  bool repairs = false;
  // Bytes that the evaluation program takes of the device's arena.
  int64_t evaluation_bytes = 0;
};

// A segment of the program, and the template's buffers for its operands.
struct AddedSegment {
  int index = -1;
  std::vector<int> operands;
};

struct ValidationSegments {
  // `settle` is `clear` after the last step; it also makes the norms zero. `keep` and `restore` exist only with
  // repairs.
  AddedSegment validate, keep, restore, clear, settle;
};

// Adds the segments to `program` and removes their work from the optimizer's segment. Adds buffers for the kept state
// at the end of the arena. With repairs, the optimizer's inputs become persistent. `t` is a template of `program`.
// InvalidArgument says what the template lacks; the caller puts the template's name in front. On an error both may have
// been changed.
absl::StatusOr<ValidationSegments> MakeValidationSegments(const StepEnd& end, Program* program, Template* t);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_
