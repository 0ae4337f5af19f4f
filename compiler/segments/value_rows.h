// Finds which values of a forward have rows in proportion to the tokens (or images) of the microbatch. Such a value can
// hold two microbatches, one after the other.
#ifndef WEFT_COMPILER_SEGMENTS_VALUE_ROWS_H_
#define WEFT_COMPILER_SEGMENTS_VALUE_ROWS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"

namespace weft {

// kPerToken: the number of rows is proportional to the tokens. kNone: all other values, such as parameters. kUnknown:
// no step makes the value, or it holds losses.
enum class Rows { kUnknown, kPerToken, kNone };

// Returns the kind of rows of each value in the segment, from the shapes in the table of kernels. InvalidArgument,
// naming segment and step, if a step mixes rows of several tokens, as a product over tokens does.
absl::StatusOr<std::vector<Rows>> RowsOfForward(const StageSegment& forward);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_VALUE_ROWS_H_
