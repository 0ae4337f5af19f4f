// Makes segments from other segments: some steps of a segment, copies between buffers, constants.
#ifndef WEFT_COMPILER_REWRITE_SEGMENT_PART_H_
#define WEFT_COMPILER_REWRITE_SEGMENT_PART_H_

#include <functional>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft {

// A segment, and the buffers of a template that its operands are bound to.
struct BoundSegment {
  Segment segment;
  std::vector<int> operands;
};

// Returns the steps of `whole`, bound to `operands`, for which `keeps` is true. Operands that these steps do not use
// are left out. The access of the other operands is what these steps need.
BoundSegment PartOf(const Segment& whole, const std::vector<int>& operands, const std::string& name,
                    const std::function<bool(const Step&)>& keeps);

// Adds a value in `buffer` of the template. If the segment has no operand for the buffer, adds that too. Returns the
// value's index. Call SetAccess after the last change.
int AddValue(const Template& t, int buffer, Value value, BoundSegment* segment);

// Sets the access of every operand according to how the steps use it. A persistent buffer that is written only in part
// is READ_WRITE.
void SetAccess(const Template& t, BoundSegment* segment);

// Appends a step that copies buffer `from` of the template to `to`, both of one dtype and shape.
void AddCopy(const Template& t, int from, int to, BoundSegment* segment);

// Appends a step that sets a whole buffer to zero.
void AddZero(const Template& t, int buffer, BoundSegment* segment);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_SEGMENT_PART_H_
