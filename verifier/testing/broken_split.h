// Programs whose tensors are cut over several axes, and helpers to break them.
#ifndef WEFT_VERIFIER_TESTING_BROKEN_SPLIT_H_
#define WEFT_VERIFIER_TESTING_BROKEN_SPLIT_H_

#include "proto/program.pb.h"
#include "verifier/testing/broken_edits.h"
#include "verifier/testing/split_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft {

inline Program Split() { return SplitProgram(); }
inline Program Zero() { return SplitProgram(true); }

inline AxisSubset* StepAxis(Program* p, const char* segment, const char* step) {
  return FindStep(p, segment, step)->mutable_collective()->mutable_group()->mutable_axes(0);
}
inline Group* GroupOf(Program* p, const char* action) { return FindAction(p, 0, action)->mutable_group(); }

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_BROKEN_SPLIT_H_
