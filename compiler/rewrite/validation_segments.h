// The segments that a rank has besides its optimizer's where updates do not wait for their norm (rule P15): the verdict
// on it, copies of what an update changes, there and back, and gradients made zero.
#ifndef WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_
#define WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"

namespace weft {

// How a template ends a step.
struct StepEnd {
  // Indices in the body: its OPTIMIZER_STEP, and its SCALE_GRADIENTS or -1.
  int optimizer = -1, clip = -1;
  // Whether updates may be taken back.
  bool repairs = false;
  // What the evaluation program takes of the device's arena.
  int64_t evaluation_bytes = 0;
};

// A segment of the program, and what its operands are bound to on the template.
struct AddedSegment {
  int index = -1;
  std::vector<int> operands;
};

struct ValidationSegments {
  // `settle` is `clear` behind the last step, which makes the norms zero too. `keep` and `restore` are there only with
  // repairs.
  AddedSegment validate, keep, restore, clear, settle;
};

// Adds them to `program`, takes what they do out of the optimizer's segment, and adds buffers for what is kept, behind
// all others of the arena; with repairs, what the optimizer reads lasts. `t` is a template of `program`.
// InvalidArgument says what the template lacks, to be put behind its name; both may have been changed then.
absl::StatusOr<ValidationSegments> MakeValidationSegments(const StepEnd& end, Program* program, Template* t);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_VALIDATION_SEGMENTS_H_
