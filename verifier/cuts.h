// Parts of axes: over which ranks something is summed, and which part of a tensor a rank holds (P8). Internal to the
// verifier.
#ifndef WEFT_VERIFIER_CUTS_H_
#define WEFT_VERIFIER_CUTS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft::verify {

// All coordinates of a mesh axis, those of the rank's block of neighbours, or those at its place in their blocks.
struct AxisCut {
  int axis = 0;
  int64_t block = 0, stride = 0;

  friend auto operator<=>(const AxisCut&, const AxisCut&) = default;
};
using Cuts = std::vector<AxisCut>;

// How many parts a cut makes.
int64_t PartsOf(const Program& program, const AxisCut& cut);
std::string DescribeCuts(const Program& program, const Cuts& cuts);

// Who takes part in a group, apart from pipe: outermost axis first, without axes of one member.
struct GroupCuts {
  Cuts cuts;
  bool pipe = false;
  // An axis of which it lists coordinates that are no block and no stride; else empty.
  std::string odd;
};
GroupCuts CutsOf(const Program& program, const Group& group);

// Adds a sum over `cut` to those that there are: a block and the strides of such blocks make the whole axis. False if
// something would be summed twice.
bool AddSum(AxisCut cut, Cuts* sums);
// Whether it is summed over the whole axis.
bool SumsAll(const Cuts& sums, int axis);
bool SumsAny(const Cuts& sums, int axis);

// rule P8.shard. What is wrong with it, "" if nothing.
std::string ShardFault(const Program& program, const LogicalTensor& tensor, const Shard& shard);
// Of a valid one: what the buffer's shape is.
std::vector<int64_t> ShardShape(const Program& program, const LogicalTensor& tensor, const Shard& shard);
// Elements of the part that these cuts of dimensions and into ranges leave. Ranges are rounded up: they are alike, and
// together they may be longer than what they are ranges of.
int64_t PartElements(const Program& program, int tensor, const Cuts& dimensions, const Cuts& ranges);
// The same of a block of so many elements, which is what cuts of dimensions leave.
int64_t RangeElements(const Program& program, int64_t block, const Cuts& ranges);
// Whether the ranges that the last `n` of these cuts make lie one after the other, so that one collective can gather
// them or scatter to them: what all but the first of these cut comes out even, and padding is at the very end.
bool PaddedAtEnd(const Program& program, int64_t block, const Cuts& ranges, size_t n);
// Axes of more than one rank that cut dimensions, ascending; and that cut ranges, in order.
Cuts DimensionCuts(const Program& program, const Shard& shard);
Cuts RangeCuts(const Program& program, const Shard& shard);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_CUTS_H_
