// Segments made of others: some of the steps of one, copies between buffers, constants.
#ifndef WEFT_COMPILER_REWRITE_SEGMENT_PART_H_
#define WEFT_COMPILER_REWRITE_SEGMENT_PART_H_

#include <functional>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft {

// A segment, and what its operands are bound to on the template that it is made for.
struct BoundSegment {
  Segment segment;
  std::vector<int> operands;
};

// The steps of `whole`, bound to `operands`, for which `keeps` holds. Operands that they do not use are left out, and
// access is what they do.
BoundSegment PartOf(const Segment& whole, const std::vector<int>& operands, const std::string& name,
                    const std::function<bool(const Step&)>& keeps);

// Adds a value in `buffer` of the template, whose operand is added if need be; returns its index. SetAccess comes at
// the end.
int AddValue(const Template& t, int buffer, Value value, BoundSegment* segment);

// Gives all operands the access that the steps have; what persists and is written in part is READ_WRITE.
void SetAccess(const Template& t, BoundSegment* segment);

// Appends a step that copies buffer `from` of the template to `to`, both of one dtype and shape.
void AddCopy(const Template& t, int from, int to, BoundSegment* segment);

// Appends a step that sets all of a buffer to zero.
void AddZero(const Template& t, int buffer, BoundSegment* segment);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_SEGMENT_PART_H_
