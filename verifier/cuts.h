// Parts of mesh axes: the ranks over which a sum goes, and the part of a tensor that a rank holds (P8). Internal to the
// verifier.
#ifndef WEFT_VERIFIER_CUTS_H_
#define WEFT_VERIFIER_CUTS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft::verify {

// Ranks along a mesh axis: all coordinates, the rank's block of neighbors (`block`), or the ranks at the same place in
// their blocks (`stride`).
struct AxisCut {
  int axis = 0;
  int64_t block = 0, stride = 0;

  friend auto operator<=>(const AxisCut&, const AxisCut&) = default;
};
using Cuts = std::vector<AxisCut>;

// Number of parts that a cut makes.
int64_t PartsOf(const Program& program, const AxisCut& cut);
std::string DescribeCuts(const Program& program, const Cuts& cuts);

// The members of a group along each axis except pipe, outermost axis first. Axes on which the group has one member are
// left out. `pipe`: the group has several members along pipe.
struct GroupCuts {
  Cuts cuts;
  bool pipe = false;
  // The axis on which the group lists coordinates that form neither a block nor a stride; empty if there is none.
  std::string odd;
};
GroupCuts CutsOf(const Program& program, const Group& group);

// Adds a sum over `cut` to `sums`. A sum over blocks and a sum over the strides between these blocks together cover the
// whole axis. Returns false if something would be summed twice.
bool AddSum(AxisCut cut, Cuts* sums);
// True if the sums cover the whole axis.
bool SumsAll(const Cuts& sums, int axis);
bool SumsAny(const Cuts& sums, int axis);

// Rule P8.shard: returns what is wrong with the shard, "" if nothing.
std::string ShardFault(const Program& program, const LogicalTensor& tensor, const Shard& shard);
// The shape of a buffer with this shard, which must be valid.
std::vector<int64_t> ShardShape(const Program& program, const LogicalTensor& tensor, const Shard& shard);
// Number of elements of a part of `tensor` after the cuts of its dimensions and then of ranges. Sizes of ranges are
// rounded up: all ranges have the same size, so together they may be longer than the block that they divide.
int64_t PartElements(const Program& program, int tensor, const Cuts& dimensions, const Cuts& ranges);
// Number of elements of a part after `ranges` cut a block of `block` elements, which the cuts of dimensions leave.
int64_t RangeElements(const Program& program, int64_t block, const Cuts& ranges);
// True if the ranges of the last `n` cuts lie one after the other, so that one collective can gather them or scatter to
// them. This requires that all of these cuts except the first divide evenly, so that padding is only at the very end.
bool PaddedAtEnd(const Program& program, int64_t block, const Cuts& ranges, size_t n);
// DimensionCuts returns the axes that cut dimensions, ascending. RangeCuts returns the axes that cut ranges, in order.
// Both leave out axes of one rank.
Cuts DimensionCuts(const Program& program, const Shard& shard);
Cuts RangeCuts(const Program& program, const Shard& shard);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_CUTS_H_
