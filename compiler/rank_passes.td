// Passes of the rank level, in the order in which they run.
#ifndef WEFT_COMPILER_RANK_PASSES_TD_
#define WEFT_COMPILER_RANK_PASSES_TD_

include "mlir/Pass/PassBase.td"

class WeftRankPass<string name> : Pass<name, "::weft::ir::ProgramOp"> {
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

def ApplySchedule : WeftRankPass<"weft-apply-schedule"> {
  let summary = "makes one template per pipe rank with its forwards and backwards in the schedule's order";
  let description = [{
    Asks the registry for the schedule by name and writes one action per slot. Which stage is on which rank comes from
    the schedule's placement; a boundary tensor made on the same rank is used directly, one made elsewhere becomes a
    weft.boundary. Templates and persistent buffers that exist already are kept and used. In an evaluation program only
    the forward slots are taken.
  }];
}

def InsertTransfers : WeftRankPass<"weft-insert-transfers"> {
  let summary = "replaces every weft.boundary by a recv and adds the send behind the action that makes the tensor";
}

def SynchronizeGradients : WeftRankPass<"weft-synchronize-gradients"> {
  let summary = "adds the end of the step: gradient, tied, norm and loss sync, clipping, optimizer";
  let description = [{
    Behind a stage's last backward, one all-reduce over `data` per bucket of its gradients (accumulators, if it has
    those). Then, at the end of the list, the sums over stages that share a tensor, the norms of each stage, the sums of
    norms over `pipe` and of losses over `pipe` and then `data`, the scaling if gradients are clipped, and the optimizer. Norm and loss
    sums are there for groups of one too: they fill the buffers that are read at the end of the step.
  }];
}

def PlaceReceives : WeftRankPass<"weft-place-receives"> {
  let summary = "moves receives ahead of the compute that consumes them";
  let description = [{
    With `receive_buffers` = k, the i-th receive of an edge waits for the consumer of the (i-k-1)-th and stands behind
    it; the first k+1 stand at the beginning of the list.
  }];
}

def PlanMemory : WeftRankPass<"weft-plan-memory"> {
  let summary = "arena offsets, releases, and the waits that make every reuse of bytes ordered (rule P7)";
}

#endif  // WEFT_COMPILER_RANK_PASSES_TD_
