// Computes when the messages of a program go if they take no time. The result orders all messages among the compute
// actions of reference_times.h; passes check every wait for a message against this order.
//
// A message goes when it is made, everything that its receive waits for has ended, and the messages in front of it on
// the streams of either rank have gone. Members of a group go together. If a compute action waits for a message that
// has gone when the action starts, the wait agrees with the order. Any number of such waits cannot form a cycle:
//
//   time 3:  ends of actions | messages, in the order of streams | starts of actions
#ifndef WEFT_COMPILER_RANK_MESSAGE_MOMENTS_H_
#define WEFT_COMPILER_RANK_MESSAGE_MOMENTS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/rank/reference_times.h"
#include "ir/rank_ops.h"
#include "llvm/ADT/DenseMap.h"

namespace weft {

class MessageMoments {
 public:
  // The moment of messages that never go, because the order of streams and groups blocks itself.
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // Receives must be placed already. `group_of` numbers the runs of transfers that go together, over all ranks. A
  // transfer that is not in it goes alone.
  MessageMoments(ir::ProgramOp program, const ReferenceTimes& times,
                 const llvm::DenseMap<mlir::Operation*, int>& group_of);

  // Uses the groups of the program (attribute `group`).
  static MessageMoments FromProgram(ir::ProgramOp program, const ReferenceTimes& times);

  // The moment when a send or a receive goes, or kNever.
  int64_t MomentOf(mlir::Operation* transfer) const;

  // True if the transfer and all that go together with it are made before any action must start that needs one of them,
  // or that needs a message behind one of them.
  bool InTime(mlir::Operation* transfer) const;

  // True if a transfer that goes together with this one could have gone alone before the last of them is made.
  bool DelaysMember(mlir::Operation* transfer) const;

 private:
  struct Node {
    int parent = 0;
    // `first` and `made`: when the first and the last of the node's messages could go alone.
    int64_t first = 0;
    int64_t made = 0;
    // When the messages go, given the messages in front of them on their streams.
    int64_t moment = kNever;
    // Start of the first action that waits for one of the messages, or for a message behind them.
    int64_t needed = kNever;
    // The nodes behind this one on streams, and the number of nodes in front of it.
    std::vector<int> next;
    int before = 0;
    // The node waits for itself, or lies between nodes that do.
    bool circle = false;
  };

  int Root(int node) const;
  int NodeOf(mlir::Operation* transfer, const ReferenceTimes& times);
  void Bound(mlir::Operation* transfer, const ReferenceTimes& times);
  void Join();
  void Spread();

  // One node per message. Messages that go together have the same root (`parent`).
  std::vector<Node> nodes_;
  llvm::DenseMap<mlir::Operation*, int> node_of_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_MESSAGE_MOMENTS_H_
