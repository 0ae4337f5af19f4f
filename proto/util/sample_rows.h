// How many rows a sample has in a step: one per token, or, for images, one per position at the step's level
// (docs/kernels.md). The rows of a step that reads the microbatch tell which microbatches the step is for.
#ifndef WEFT_PROTO_UTIL_SAMPLE_ROWS_H_
#define WEFT_PROTO_UTIL_SAMPLE_ROWS_H_

#include <cstdint>

#include "proto/program.pb.h"

namespace weft {

// Rows of one sample in a step that reads the microbatch; at least 1 in a program that is valid.
inline int64_t RowsOfSample(const Program& program, const Step& step) {
  switch (step.kernel()) {
    case LOAD_TIMESTEPS:
      return 1;
    case LOAD_NOISY_IMAGE:
    case LOAD_NOISE:
    case SQUARED_ERROR:
      return step.attributes().sequence();
    case ATTENTION:
    case ATTENTION_BACKWARD:
    case DROPOUT:
    case DROPOUT_MASK:
      if (step.attributes().sequence() > 0) return step.attributes().sequence();
      break;
    default:
      break;
  }
  return program.recipe().sequence_length();
}

// The value that has the rows of the step's samples; null if the step has none.
inline const Value* RowsValue(const Segment& segment, const Step& step) {
  // Its output is the losses.
  if (step.kernel() == SQUARED_ERROR) return step.inputs().empty() ? nullptr : &segment.values(step.inputs(0));
  return step.outputs().empty() ? nullptr : &segment.values(step.outputs(0));
}

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_SAMPLE_ROWS_H_
