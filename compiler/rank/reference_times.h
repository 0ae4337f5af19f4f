// Computes when the actions of a program would run if messages took no time. This is a topological order of all ranks'
// lists. A pass whose decisions agree with it cannot block any rank.
//
// The cost of an action comes from the program's attributes (forward_cost and so on) and is the same for all stages. At
// one time, ends of actions come first, then messages, then starts.
#ifndef WEFT_COMPILER_RANK_REFERENCE_TIMES_H_
#define WEFT_COMPILER_RANK_REFERENCE_TIMES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/rank_ops.h"
#include "llvm/ADT/DenseMap.h"

namespace weft {

struct ReferenceTime {
  int64_t start = 0;
  int64_t end = 0;
};

class ReferenceTimes {
 public:
  // Transfers must be inserted already; receives need not be placed. A receive whose send is not in the program waits
  // for nothing.
  explicit ReferenceTimes(ir::ProgramOp program);

  // Times of a compute action; null if it never runs because the lists block each other.
  const ReferenceTime* Find(mlir::Operation* compute) const {
    auto found = times_.find(compute);
    return found == times_.end() ? nullptr : &found->second;
  }
  // The other end of a transfer: the send of a receive, or the receive of a send; null if there is none.
  mlir::Operation* Partner(mlir::Operation* transfer) const { return partners_.lookup(transfer); }

 private:
  void MatchTransfers(ir::ProgramOp program);
  int64_t Cost(ir::ProgramOp program, mlir::Operation* compute) const;

  llvm::DenseMap<mlir::Operation*, ReferenceTime> times_;
  llvm::DenseMap<mlir::Operation*, mlir::Operation*> partners_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_REFERENCE_TIMES_H_
