// Passes of the rank level, in the order in which they run.
#ifndef WEFT_COMPILER_RANK_PASSES_TD_
#define WEFT_COMPILER_RANK_PASSES_TD_

include "mlir/Pass/PassBase.td"

class WeftRankPass<string name> : Pass<name, "::weft::ir::ProgramOp"> {
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

def ApplySchedule : WeftRankPass<"weft-apply-schedule"> {
  let summary = "makes one template per pipe rank with its compute actions in the schedule's order";
  let description = [{
    The pass takes the schedule from the registry, by name and parameters, or reads its `definition`. It writes one
    action per slot, and one action for the two slots of an overlapped pair. The schedule's placement says which stage
    is on which rank. A boundary tensor from the same rank is used directly; one from another rank becomes a
    weft.boundary. Templates and persistent buffers that exist already are kept and used. An evaluation program gets
    only the forward slots, one microbatch each.

    A message-driven schedule sets `compute_order` and `limit`. Its list holds the forwards in order and the backwards
    in order, and the forward of microbatch m waits for the backward of microbatch m - limit.
  }];
}

def InsertTransfers : WeftRankPass<"weft-insert-transfers"> {
  let summary = "replaces every weft.boundary by a recv, and adds the send after the action that computes the tensor";
}

def SynchronizeGradients : WeftRankPass<"weft-synchronize-gradients"> {
  let summary = "adds the end of the iteration: sums of gradients, norms and losses, clipping, the optimizer";
  let description = [{
    Replicas of a stage are the ranks of `data` and the pipe ranks that hold the same stage. They sum the stage's
    gradients (or its accumulators, if it has any) in one all-reduce per bucket; `sync_axes` names further axes over
    which a tensor's gradient is a partial sum. The operands of the ranks' optimizer and norm segments say which rank
    holds which gradient. `gradient_sync` says when the sums start:

    - `eager`: after the stage's last backward.
    - `lazy`: after the rank's last backward.
    - `eager_opt`: after the stage's last backward if the rank waits for something after it, else after the rank's last
      backward.

    All ranks of a group run the group's sums in the same order.

    At the end of the list follow the sums over ranks that share a tensor, the norms of the rank's gradients, the sums
    of norms over `pipe` and `norm_axes`, the sums of losses over `pipe`, `z` and then `data`, the scaling if gradients
    are clipped, and the optimizer. Groups of one rank have norm and loss sums too, because these fill the buffers that
    are read at the end of the iteration.

    Source of `eager_opt`: Li and Hoefler 2021, arXiv:2107.06925, sec. 3.2.
  }];
}

def PlaceReceives : WeftRankPass<"weft-place-receives"> {
  let summary = "places messages in the list: receives before the compute that reads them, sends after it, in groups";
  let description = [{
    With `transfer_placement = early` and `receive_buffers` = k, a receive waits until all but k of the earlier messages
    of its edge have been read, and stands after the action that read the last of these. The first k + 1 receives stand
    at the start of the list. With `deferred`, a receive waits for the compute action before the one that reads it. The
    compute action that makes the i-th message of an edge waits for the send of message i - `send_buffers`. Neither wait
    is added if the schedule itself needs more messages in flight.

    If edges share a stream (`transfer_streams`), deferred transfers are in the same order on all ranks, so that they
    cannot block each other. With `group_transfers`, neighboring transfers with the same peer get a common `group`.
  }];
}

def PlanMemory : WeftRankPass<"weft-plan-memory"> {
  let summary = "assigns arena offsets and releases, and adds the waits that order every reuse of bytes (rule P7)";
  let description = [{
    A buffer lives from the action that defines it to the last compute action that reads it, or to its send if no later
    action computes with it. Time is counted in compute actions, which share one stream. Two buffers whose intervals do
    not overlap may share bytes without a further wait. Waits are added for intervals that would not end otherwise:

    - A compute action waits for the sends of buffers whose bytes it reuses.
    - The last compute action waits for sends that nothing else waits for.
    - The first receive of an edge waits for the last compute action of the previous repetition.

    A compute action that waits for a send must not block another rank that still waits for this rank. The pass decides
    this by a common order of all messages of all ranks (`compiler/rank/message_moments.h`), in which compute actions
    take reference times. In this order a message moves once it is computed, its receive is posted, and the messages
    before it on the streams of both ranks have moved. A wait for a message that has moved before the action starts
    agrees with the order, so any number of such waits is free of cycles. If the message moves later, a later action
    waits for it, or the next repetition does.

    Persistent buffers share their bytes with no other buffer.
  }];
  let options = [
    Option<"quick", "quick", "bool", /*default=*/"false", "plan arenas without the longer search for low ones">,
  ];
}

#endif  // WEFT_COMPILER_RANK_PASSES_TD_
