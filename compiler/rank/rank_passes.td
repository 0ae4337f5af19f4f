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
    Asks the registry for the schedule by name and parameters, or reads its `definition`, and writes one action per slot
    (one for the two of an overlapped pair). Which stage is on which rank comes from the schedule's placement; a boundary
    tensor made on the same rank is used directly, one made elsewhere becomes a weft.boundary. Templates and persistent
    buffers that exist already are kept and used. In an evaluation program only the forward slots are taken, each for
    one microbatch.

    A message-driven schedule sets `compute_order` and `limit`: the list holds forwards and backwards, each in order, and
    the forward of microbatch m waits for the backward of microbatch m - limit.
  }];
}

def InsertTransfers : WeftRankPass<"weft-insert-transfers"> {
  let summary = "replaces every weft.boundary by a recv and adds the send behind the action that makes the tensor";
}

def SynchronizeGradients : WeftRankPass<"weft-synchronize-gradients"> {
  let summary = "adds the end of the step: gradient, tied, norm and loss sync, clipping, optimizer";
  let description = [{
    Replicas of a stage, over `data` (`sync_axes`: and where else the gradient of a tensor is a partial sum) and on
    several pipe ranks, sum its gradients (accumulators, if it has those) in one
    all-reduce per bucket; the operands of the ranks' step segments say who holds what. `gradient_sync` says when:
    `eager` behind the stage's last backward, `lazy` behind the last backward of the rank, `eager_opt` behind the stage's
    last backward where the rank waits for something after it, else behind the rank's. All ranks of a group run its sums
    in one order.

    Then, at the end of the list, the sums over ranks that share a tensor, the norms of the rank's gradients, the sums of
    norms over `pipe` and `norm_axes` and of losses over `pipe`, `z` and then `data`, the scaling if gradients are
    clipped, and the optimizer. Norm and loss sums are there for groups of one too: they fill the buffers that are read at
    the end of the step.

    Source of `eager_opt`: Li and Hoefler 2021, arXiv:2107.06925, sec. 3.2.
  }];
}

def PlaceReceives : WeftRankPass<"weft-place-receives"> {
  let summary = "says when messages go: receives ahead of the compute that reads them, sends behind it, in groups";
  let description = [{
    With `transfer_placement = early` and `receive_buffers` = k, a receive waits until all but k of those before it on its
    edge have been read, and stands behind that reader; the first k+1 stand at the beginning of the list. `deferred`
    receives wait for the compute action before the one that reads them. The compute action that makes the i-th message
    of an edge waits for the (i - send_buffers)-th. Both give way where the schedule itself has more messages under way.

    Where edges share a stream (`transfer_streams`), deferred transfers stand in one order on all ranks, so that they
    cannot block each other. With `group_transfers`, neighbours with the same peer get a common `group`.
  }];
}

def PlanMemory : WeftRankPass<"weft-plan-memory"> {
  let summary = "arena offsets, releases, and the waits that make every reuse of bytes ordered (rule P7)";
  let description = [{
    A buffer lives from the action that defines it to the last compute action that reads it, or to its send if nothing
    computes with it afterwards; time is counted in compute actions, which share one stream. Two buffers whose intervals
    do not meet may share bytes with no further wait. Waits are added where an interval would not end: compute waits for
    sends of what it needs again, sends that nothing waits for are waited for by the last compute action, the first
    receive of an edge waits for the last compute action of the repetition before.

    A wait of compute for a send must not block another rank that this rank has yet to serve. Whether it could is asked
    of the moments of messages (`compiler/rank/message_moments.h`): an order of all messages of all ranks among compute
    actions that take reference times, in which each message goes when it is made, when its receive may, and behind
    those before it on both ranks' streams. A wait for a message that has gone when the action starts agrees with that
    order, so any number of them is free of circles; where a message goes later, a later action waits for it, or the
    next repetition does.

    Persistent buffers share with none.
  }];
}

#endif  // WEFT_COMPILER_RANK_PASSES_TD_
