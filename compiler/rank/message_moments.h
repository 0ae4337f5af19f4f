// Computes when the messages of a program are sent if they take no time. The result orders all messages among the
// compute actions of reference_times.h; passes check every wait for a message against this order.
//
// A message is sent as soon as three conditions hold: the message is made, everything that its receive waits for has
// ended, and the earlier messages on its streams on both ranks have been sent. Members of a group are sent together. If
// a compute action waits for a message that is sent by the time the action starts, the wait agrees with the order. Any
// number of such waits cannot form a cycle:
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
  // The moment of messages that are never sent, because streams and groups wait for each other in a cycle.
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // Receives must be placed already. `group_of` gives each grouped transfer the number of its group, over all ranks.
  // Transfers of one group are sent together. A transfer that is not in `group_of` is sent alone.
  MessageMoments(ir::ProgramOp program, const ReferenceTimes& times,
                 const llvm::DenseMap<mlir::Operation*, int>& group_of);

  // Uses the groups of the program (attribute `group`).
  static MessageMoments FromProgram(ir::ProgramOp program, const ReferenceTimes& times);

  // The moment at which the message of a send or a receive is sent, or kNever.
  int64_t MomentOf(mlir::Operation* transfer) const;

  // True if the whole group of the transfer can be sent in time: all its messages are made before any action must start
  // that needs one of them, or that needs a message after one of them on a stream.
  bool InTime(mlir::Operation* transfer) const;

  // True if a member of the transfer's group could be sent alone before the last member is made.
  bool DelaysMember(mlir::Operation* transfer) const;

 private:
  struct Node {
    int parent = 0;
    // `first` and `made`: when the first and the last of the node's messages could be sent alone.
    int64_t first = 0;
    int64_t made = 0;
    // When the messages are sent, given the earlier messages on their streams.
    int64_t moment = kNever;
    // Start of the first action that waits for one of the messages, or for a message after them on a stream.
    int64_t needed = kNever;
    // The next nodes on this node's streams, and how many nodes directly precede this node.
    std::vector<int> next;
    int before = 0;
    // True if the node is in a cycle of waits or lies between two cycles.
    bool circle = false;
  };

  int Root(int node) const;
  int NodeOf(mlir::Operation* transfer, const ReferenceTimes& times);
  void Bound(mlir::Operation* transfer, const ReferenceTimes& times);
  void Join();
  void Spread();

  // One node per message. Messages that are sent together have the same root (`parent`).
  std::vector<Node> nodes_;
  llvm::DenseMap<mlir::Operation*, int> node_of_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_MESSAGE_MOMENTS_H_
