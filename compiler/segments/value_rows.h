// Which values of a forward have rows in proportion to the microbatch's tokens (or images) in dimension 0, so that two
// microbatches can be in one value, one behind the other.
#ifndef WEFT_COMPILER_SEGMENTS_VALUE_ROWS_H_
#define WEFT_COMPILER_SEGMENTS_VALUE_ROWS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"

namespace weft {

// kNone: something else, as parameters have; kUnknown: no step makes it, or it is of losses.
enum class Rows { kUnknown, kPerToken, kNone };

// Returns the rows of each value of the segment, from the shapes that the kernels' rows state. InvalidArgument, naming
// segment and step, if a step mixes rows of several tokens, as a product over tokens does.
absl::StatusOr<std::vector<Rows>> RowsOfForward(const StageSegment& forward);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_VALUE_ROWS_H_
