// Where the buffers of one repetition lie: lifetimes as intervals, packed into the arena behind persistent buffers.
//
// Time is counted in compute actions, because all of them share one stream: moment 2c is compute action c, 2c + 1 the
// gap behind it.
//   - written by compute c: from 2c.
//   - received, or made by a collective: from 2c + 1, c being the last compute action that is finished, for any timing,
//     when that starts.
//   - released by compute c: until 2c.
//   - released by a send or a collective: until 2c - 1, c being the first compute action that starts, for any timing,
//     after it has finished.
// Two buffers whose intervals do not meet may share bytes. Without a static order (rule P6) there is no such time.
#ifndef WEFT_COMPILER_RANK_BUFFER_OFFSETS_H_
#define WEFT_COMPILER_RANK_BUFFER_OFFSETS_H_

#include <vector>

#include "compiler/memory/repetition_order.h"
#include "ir/rank_ops.h"

namespace weft {

// With a static order the first stream holds all compute actions; otherwise there are three: forwards, backwards, and
// those that are in both queues.
constexpr int kComputeStream = 0;
constexpr int kBackwardStream = 1;
constexpr int kStepStream = 2;

// A buffer of one repetition.
struct Transient {
  mlir::Value buffer;
  int writer = 0;
  // The action whose finish ends its life.
  int last = 0;
  // Without a static order: the one whose place it takes, or -1.
  int before = -1;
};

// The actions of a template and what is known of their order.
struct TemplateOrder {
  const std::vector<mlir::Operation*>& actions;
  // Those that compute, ascending.
  const std::vector<int>& computes;
  // The order of compute is chosen while running.
  bool dynamic = false;
  const RepetitionOrder& order;
};

// Sets the offsets of persistent buffers and of `transients`, which are in the order of their writers, and
// `persistent_bytes` and `arena_bytes` of the template.
mlir::LogicalResult AssignOffsets(ir::TemplateOp t, const TemplateOrder& known,
                                  const std::vector<Transient>& transients);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_BUFFER_OFFSETS_H_
