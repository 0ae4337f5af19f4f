// The collectives around an optimizer step of a program that never drains the pipeline (rule P14).
#ifndef WEFT_COMPILER_EXPORT_ASYNCHRONOUS_SUMS_H_
#define WEFT_COMPILER_EXPORT_ASYNCHRONOUS_SUMS_H_

#include <string>
#include <utility>
#include <vector>

#include "compiler/segments/segment_set.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Operands of the segments of one rank.
struct GradientSum {
  ActionKind kind = ALL_REDUCE;
  std::string name;
  Group group;
  std::vector<const SegmentOperand*> from, to;
  // It sums further what the one before it has made.
  bool after_previous = false;
};

// The operand of a tensor in this role, null if the segment has none.
const SegmentOperand* FindOperand(const StageSegment& segment, ir::Role role, int tensor);

// What stands between the last backward and `optimizer`: gradients that are partial sums over the same axes go
// together; with ZeRO 1 they are first scattered over the replicas that share states.
std::vector<GradientSum> GradientSumsBefore(const StageSegment& optimizer, const SegmentSet& segments,
                                            const Plan& plan);

// What `optimizer` leaves of the weights that it does not write whole (ZeRO 1 and 2, kept layers of 3), and the whole
// that forwards and backwards read.
std::vector<std::pair<const SegmentOperand*, const SegmentOperand*>> GatheredWeights(const StageSegment& optimizer,
                                                                                     const StageSegment& forward,
                                                                                     const StageSegment& backward);
// Over the replicas that share states.
Group GroupOfSharers(const Plan& plan);

// Where segments hold collectives the order of the compute stream is not that of all steps: every compute action waits
// for the one before it, and what makes, sums or uses gradients for the detached steps of the backward before it.
void ChainCompute(const Program& program, Template* t);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_ASYNCHRONOUS_SUMS_H_
