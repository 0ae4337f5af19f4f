// Assigns offsets to the buffers of one repetition: their lifetimes are intervals, which are packed into the arena
// after the persistent buffers.
//
// Time is counted in compute actions, because all of them share one stream: moment 2c is compute action c, and 2c + 1
// is the gap after it. A buffer lives
//   - from 2c, if compute c writes it.
//   - from 2c + 1, if it is received or made by a collective; c is the last compute action that is certainly finished
//     when that transfer or collective starts.
//   - until 2c, if compute c releases it.
//   - until 2c - 1, if a send or a collective releases it; c is the first compute action that certainly starts after
//     that send or collective is finished.
// Two buffers whose intervals do not overlap may share bytes. Without a static order (rule P6) moments of this kind do
// not exist.
#ifndef WEFT_COMPILER_RANK_BUFFER_OFFSETS_H_
#define WEFT_COMPILER_RANK_BUFFER_OFFSETS_H_

#include <vector>

#include "compiler/memory/repetition_order.h"
#include "ir/rank_ops.h"

namespace weft {

// With a static order, kComputeStream holds all compute actions. Without one, the streams hold forwards, backwards, and
// the actions that are in both queues.
constexpr int kComputeStream = 0;
constexpr int kBackwardStream = 1;
constexpr int kStepStream = 2;

// A buffer of one repetition.
struct Transient {
  mlir::Value buffer;
  int writer = 0;
  // The last action that uses the buffer. The buffer's life ends when this action is finished.
  int last = 0;
  // Without a static order: the index of the transient whose place this buffer takes over; -1 if none.
  int reuses = -1;
};

// The actions of a template, and what is known of their order.
struct TemplateOrder {
  const std::vector<mlir::Operation*>& actions;
  // Indices of the compute actions, ascending.
  const std::vector<int>& computes;
  // True if the order of compute actions is chosen while running.
  bool dynamic = false;
  const RepetitionOrder& order;
};

// Sets the offsets of persistent buffers and of `transients` (sorted by their writers), and the attributes
// `persistent_bytes` and `arena_bytes` of the template. If `quick` is true, PlanArena chooses the offsets, else
// PlanArenaOfRank.
mlir::LogicalResult AssignOffsets(ir::TemplateOp t, const TemplateOrder& known,
                                  const std::vector<Transient>& transients, bool quick);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_BUFFER_OFFSETS_H_
