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

// A collective on operands of the segments of one rank.
struct GradientSum {
  ActionKind kind = ALL_REDUCE;
  std::string name;
  Group group;
  std::vector<const SegmentOperand*> from, to;
  // True if this collective sums the result of the previous collective further.
  bool after_previous = false;
};

// The operand of a tensor in this role; null if the segment has none.
const SegmentOperand* FindOperand(const StageSegment& segment, ir::Role role, int tensor);

// The collectives between the last backward and `optimizer`. Gradients that are partial sums over the same axes are
// summed together. With ZeRO 1 they are first scattered over the replicas that share states.
std::vector<GradientSum> GradientSumsBefore(const StageSegment& optimizer, const SegmentSet& segments,
                                            const Plan& plan);

// Weights that `optimizer` does not write whole (ZeRO 1 and 2, and ZeRO 3 for layers that keep their gathered weights).
// Each pair holds the operand that `optimizer` writes and the whole weight that forwards and backwards read.
std::vector<std::pair<const SegmentOperand*, const SegmentOperand*>> GatheredWeights(const StageSegment& optimizer,
                                                                                     const StageSegment& forward,
                                                                                     const StageSegment& backward);
// The group of replicas that share states.
Group GroupOfSharers(const Plan& plan);

// Adds the dependencies that a program needs if its segments hold collectives, because the order of the compute stream
// is then not the order of all steps. Every compute action waits for the one before it. Actions that compute, sum or
// use gradients wait for the detached steps of the backward before them.
void ChainCompute(const Program& program, Template* t);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_ASYNCHRONOUS_SUMS_H_
