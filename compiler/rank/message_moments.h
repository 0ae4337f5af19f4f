// When the messages of a program go if they take no time: an order of all messages among the compute actions of
// reference_times.h to which every wait for a message can be held.
//
// A message goes when it is made, when what its receive waits for has ended, and not before the messages in front of it
// on the streams of either rank; members of a group go together. A wait of a compute action for a message that has gone
// when the action starts agrees with that order, so that any number of them cannot make a circle:
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
  // Where an order of streams and groups blocks itself, its messages never go.
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // Receives are placed. `group_of` numbers runs of transfers that go together, over all ranks; those that are not in
  // it go alone.
  MessageMoments(ir::ProgramOp program, const ReferenceTimes& times,
                 const llvm::DenseMap<mlir::Operation*, int>& group_of);

  // With the groups of the program (attribute `group`).
  static MessageMoments OfProgram(ir::ProgramOp program, const ReferenceTimes& times);

  // Of a send or a receive.
  int64_t Of(mlir::Operation* transfer) const;

  // Whether the transfer, and all that go together with it, are made before anything has to start that needs one of
  // them, or a message that is behind one of them.
  bool InTime(mlir::Operation* transfer) const;

  // Whether one of those that go together with it could have gone alone before the last of them is made.
  bool Waits(mlir::Operation* transfer) const;

 private:
  struct Node {
    int parent = 0;
    // When the first and the last of its messages could go alone.
    int64_t first = 0;
    int64_t made = 0;
    // When they go behind those in front of them.
    int64_t moment = kNever;
    // Start of the first action that waits for one of them, or for one behind them.
    int64_t needed = kNever;
    // Nodes behind it on streams, and how many are in front of it.
    std::vector<int> next;
    int before = 0;
    // It waits for itself, or is between such.
    bool circle = false;
  };

  int Root(int node) const;
  int NodeOf(mlir::Operation* transfer, const ReferenceTimes& times);
  void Bound(mlir::Operation* transfer, const ReferenceTimes& times);
  void Join();
  void Spread();

  // Messages; those that go together point at one.
  std::vector<Node> nodes_;
  llvm::DenseMap<mlir::Operation*, int> node_of_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_MESSAGE_MOMENTS_H_
