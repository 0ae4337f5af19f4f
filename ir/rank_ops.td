// Rank level: what every role of rank does, in order, and with which buffers.
#ifndef WEFT_IR_RANK_OPS_TD_
#define WEFT_IR_RANK_OPS_TD_

include "ir/dialect.td"
include "mlir/IR/SymbolInterfaces.td"

def Weft_ProgramOp : Weft_Op<"program", [Symbol, SymbolTable, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "the lists of actions of all ranks of a mesh";
  let description = [{
    The program holds the signatures of its segments, and one template for each group of ranks that run the same list of
    actions. Its attributes are the parts of the plan that the rank-level passes read.

    ```mlir
    weft.program @gpt2 mesh <data = 2, pipe = 4> stages 4 microbatches 8 schedule "1f1b" {
      weft.signature @stage0.forward forward stage 0 [...]
      weft.template @pipe0 at {pipe = 0} {
        ...
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Weft_MeshAttr:$mesh, I32Attr:$stages, I32Attr:$microbatches,
                       StrAttr:$schedule,
                       // Forward only.
                       UnitAttr:$evaluation,
                       // Gradients are scaled by the clipping factor before the optimizer step.
                       UnitAttr:$clip,
                       DefaultValuedAttr<I32Attr, "1">:$receive_buffers,
                       DefaultValuedAttr<I32Attr, "2">:$send_buffers,
                       DefaultValuedAttr<I64Attr, "0">:$gradient_bucket_bytes,
                       DefaultValuedAttr<StrAttr, "\"ring\"">:$collective,
                       // Cost of one microbatch on one rank, in any unit, for schedules that order slots by time.
                       DefaultValuedAttr<I64Attr, "1">:$forward_cost,
                       DefaultValuedAttr<I64Attr, "2">:$backward_cost,
                       // The part of the backward's cost that computes weight gradients; for an overlapped pair, 0 =
                       // the sum.
                       DefaultValuedAttr<I64Attr, "1">:$weight_cost,
                       DefaultValuedAttr<I64Attr, "0">:$pair_cost,
                       // Time from the end of one rank's action until another rank can use its result.
                       DefaultValuedAttr<I64Attr, "0">:$p2p_cost,
                       // The fields of PlanSchedule that are set, by name: {virtual_stages = 2 : i64}.
                       OptionalAttr<DictionaryAttr>:$parameters,
                       // A user-defined schedule instead of one from the registry.
                       OptionalAttr<StrAttr>:$definition,
                       // How a rank orders its forwards and backwards (rule P6), and, if it does so at run time, the
                       // most microbatches in flight; weft-apply-schedule sets both.
                       DefaultValuedAttr<Weft_ComputeOrderAttr, "ComputeOrder::StaticOrder">:$compute_order,
                       DefaultValuedAttr<I32Attr, "0">:$limit,
                       DefaultValuedAttr<Weft_TransferStreamsAttr, "TransferStreams::PerEdge">:$transfer_streams,
                       DefaultValuedAttr<Weft_TransferPlacementAttr, "TransferPlacement::Early">:$transfer_placement,
                       UnitAttr:$group_transfers,
                       DefaultValuedAttr<Weft_SyncMomentAttr, "SyncMoment::Eager">:$gradient_sync,
                       // By tensor: the axes over which the gradients of its uses are summed; absent = `data` for all.
                       // `data:groups` means the ranks of `data` that hold the same part, one in each zero_group.
                       OptionalAttr<ArrayAttr>:$sync_axes,
                       // ZeRO: number of neighboring data replicas that share one copy of the model states; 0 = each
                       // has its own.
                       DefaultValuedAttr<I64Attr, "0">:$zero_group,
                       // Axes besides `pipe` over which squared norms are summed.
                       DefaultValuedAttr<StrArrayAttr, "{}">:$norm_axes,
                       // from_stage and to_stage of every skip edge, one after the other.
                       OptionalAttr<DenseI64ArrayAttr>:$skips);
  let regions = (region SizedRegion<1>:$body);
  // Leaves all other attributes at their defaults.
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "MeshAttr":$mesh, "int32_t":$stages,
                                 "int32_t":$microbatches, "::llvm::StringRef":$schedule)>];
  let assemblyFormat = [{
    $sym_name `mesh` `` $mesh `stages` $stages `microbatches` $microbatches `schedule` $schedule
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Weft_SignatureOp : Weft_Op<"signature", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "the operands of a segment";
  let description = [{
    Lists the operands of a segment in order. If the segment is the first in a repetition to write an operand (access
    `write` to a boundary tensor, to saved activations or gradients, or to the workspace), the operand is a result of
    the actions that run the segment. All other operands are inputs of these actions.

    `width`, `part`, `rank` and `backward_stage` are those of StageSegment (compiler/segments/segment_set.h).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Weft_SegmentKindAttr:$kind, I32Attr:$stage,
                       TypedArrayAttrBase<Weft_OperandAttr, "operands">:$operands_,
                       // Number of microbatches of a forward.
                       DefaultValuedAttr<I32Attr, "1">:$width,
                       // For a backward: which microbatch of the wide forward; -1 if the forward is not wide.
                       DefaultValuedAttr<SI32Attr, "-1">:$part,
                       // For grad_norm, scale_gradients and optimizer_step: the pipe rank.
                       DefaultValuedAttr<SI32Attr, "-1">:$rank,
                       // For a forward_backward: the stage of the backward.
                       DefaultValuedAttr<SI32Attr, "-1">:$backward_stage,
                       // The action has steps on streams other than compute.
                       UnitAttr:$collectives);
  let assemblyFormat = "$sym_name `` $kind `stage` $stage $operands_ attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    // True if the action has detached steps (rule P2).
    bool hasDetached() {
      return ::llvm::any_of(getOperands_(), [](::mlir::Attribute operand) {
        return ::mlir::cast<OperandAttr>(operand).getDetached() > 0;
      });
    }
    OperandAttr getOperand(unsigned index) { return ::mlir::cast<OperandAttr>(getOperands_()[index]); }
    unsigned size() { return getOperands_().size(); }
  }];
}

def Weft_TemplateOp : Weft_Op<"template", [Symbol, HasParent<"ProgramOp">, SingleBlock, NoTerminator]> {
  let summary = "the actions of one repetition of all ranks whose coordinates match `pins`";
  let description = [{
    The persistent buffers come first, then the actions in list order. A non-persistent buffer is the result of the
    action that first writes it, so the def-use chain of the result gives the buffer's lifetime.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DictionaryAttr:$pins);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `at` $pins attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

class Weft_RankOp<string mnemonic, list<Trait> traits = []> : Weft_Op<mnemonic, traits # [HasParent<"TemplateOp">]>;

def Weft_PersistentOp : Weft_RankOp<"persistent"> {
  let summary = "a buffer that lives for the whole run";
  let arguments = (ins Weft_RoleAttr:$role, OptionalAttr<I64Attr>:$offset);
  let results = (outs Weft_BufferType:$buffer);
  let assemblyFormat = "$role attr-dict `:` type($buffer)";
}

// An action that runs a segment. `inputs` and `outputs` are bound to the segment's operands by its signature.
class Weft_ComputeOp<string mnemonic> : Weft_RankOp<mnemonic, [AttrSizedOperandSegments]> {
  let description = [{
    Runs a segment. `inputs` and `outputs` together are the operands of the segment's signature; each list keeps the
    signature's order. `offsets` are the offsets of `outputs` in the arena, in bytes.

    ```mlir
    %y, %saved, %done = weft.forward @stage1.forward stage 1 microbatch 0 (%x, %w)
        : (!weft.buffer<in_flight_activation, 4096>, !weft.buffer<parameter, 1024>)
        -> (!weft.buffer<in_flight_activation, 4096>, !weft.buffer<saved_activation, 8192>)
    ```
  }];
  let results = (outs Variadic<Weft_BufferType>:$outputs, Weft_TokenType:$done);
  let hasVerifier = 1;
}
class Weft_MicrobatchOp<string mnemonic> : Weft_ComputeOp<mnemonic> {
  let arguments = (ins FlatSymbolRefAttr:$segment, I32Attr:$stage, I32Attr:$microbatch,
                       DefaultValuedAttr<I32Attr, "1">:$width, DefaultValuedAttr<I32Attr, "0">:$lane,
                       Variadic<Weft_BufferType>:$inputs, Variadic<Weft_TokenType>:$after,
                       OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let assemblyFormat = [{
    $segment `stage` $stage `microbatch` $microbatch (`width` $width^)? (`lane` $lane^)? `(` $inputs `)`
    (`after` $after^)? attr-dict `:` functional-type($inputs, $outputs)
  }];
}
class Weft_StepOp<string mnemonic> : Weft_ComputeOp<mnemonic> {
  let arguments = (ins FlatSymbolRefAttr:$segment, I32Attr:$stage, Variadic<Weft_BufferType>:$inputs,
                       Variadic<Weft_TokenType>:$after, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let assemblyFormat = [{
    $segment `stage` $stage `(` $inputs `)` (`after` $after^)? attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Weft_ForwardOp : Weft_MicrobatchOp<"forward"> {
  let summary = "forward of one stage for `width` neighboring microbatches";
}
def Weft_BackwardOp : Weft_MicrobatchOp<"backward"> {
  let summary = "backward of one stage for one microbatch";
}
def Weft_BackwardInputOp : Weft_MicrobatchOp<"backward_input"> {
  let summary = "the half of a backward that computes the gradient of the stage's input";
}
def Weft_BackwardWeightOp : Weft_MicrobatchOp<"backward_weight"> {
  let summary = "the half of a backward that computes the gradients of the stage's weights";
}
def Weft_ForwardBackwardOp : Weft_ComputeOp<"forward_backward"> {
  let summary = "a forward and a backward that run as one action (rule P5)";
  let arguments = (ins FlatSymbolRefAttr:$segment, I32Attr:$stage, I32Attr:$microbatch,
                       DefaultValuedAttr<I32Attr, "0">:$lane, I32Attr:$backward_stage, I32Attr:$backward_microbatch,
                       DefaultValuedAttr<I32Attr, "0">:$backward_lane, Variadic<Weft_BufferType>:$inputs,
                       Variadic<Weft_TokenType>:$after, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let assemblyFormat = [{
    $segment `stage` $stage `microbatch` $microbatch (`lane` $lane^)? `backward` `stage` $backward_stage
    `microbatch` $backward_microbatch (`lane` $backward_lane^)? `(` $inputs `)` (`after` $after^)? attr-dict
    `:` functional-type($inputs, $outputs)
  }];
}
def Weft_GradNormOp : Weft_StepOp<"grad_norm"> {
  let summary = "squared norms of a rank's gradients";
}
def Weft_ScaleGradientsOp : Weft_StepOp<"scale_gradients"> {
  let summary = "clips a rank's gradients";
}
def Weft_OptimizerStepOp : Weft_StepOp<"optimizer_step"> {
  let summary = "updates a rank's parameters";
}

def Weft_BoundaryOp : Weft_RankOp<"boundary"> {
  let summary = "a boundary tensor that another rank computes; replaced by a receive when transfers are inserted";
  let description = [{
    The op stands for a tensor that `stage` reads: the output of the stage before it (`towards_loss`) or the input
    gradient of the stage after it (`from_loss`). With `skip` = i > 0 it stands for the tensor that crosses the i-th
    skip edge, or for that tensor's gradient.
  }];
  let arguments = (ins Weft_DirectionAttr:$direction, I32Attr:$stage, I32Attr:$microbatch,
                       DefaultValuedAttr<I32Attr, "1">:$width, DefaultValuedAttr<I32Attr, "0">:$lane,
                       DefaultValuedAttr<I32Attr, "0">:$skip);
  let results = (outs Weft_BufferType:$buffer);
  let assemblyFormat = [{
    `` $direction `stage` $stage `microbatch` $microbatch (`width` $width^)? (`lane` $lane^)? (`skip` $skip^)? attr-dict
    `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Weft_SendOp : Weft_RankOp<"send"> {
  let summary = "sends a boundary tensor to the rank of the stage that reads it";
  let description = "`stage` is the stage that computed the tensor; `group` is Action.transfer_group.";
  let arguments = (ins Weft_BufferType:$source, DictionaryAttr:$peer, Weft_DirectionAttr:$direction, I32Attr:$stage,
                       I32Attr:$microbatch, DefaultValuedAttr<I32Attr, "1">:$width,
                       DefaultValuedAttr<I32Attr, "0">:$lane, DefaultValuedAttr<I32Attr, "0">:$skip,
                       DefaultValuedAttr<I32Attr, "0">:$group, Variadic<Weft_TokenType>:$after);
  let results = (outs Weft_TokenType:$done);
  let assemblyFormat = [{
    $source `to` $peer `` $direction `stage` $stage `microbatch` $microbatch (`width` $width^)? (`lane` $lane^)?
    (`skip` $skip^)? (`group` $group^)? (`after` $after^)? attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
}

def Weft_RecvOp : Weft_RankOp<"recv"> {
  let summary = "receives a boundary tensor from the rank of the stage that computes it";
  let description = "`stage` reads the tensor. `offsets` has the offset of the buffer in the arena, in bytes.";
  let arguments = (ins DictionaryAttr:$peer, Weft_DirectionAttr:$direction, I32Attr:$stage, I32Attr:$microbatch,
                       DefaultValuedAttr<I32Attr, "1">:$width, DefaultValuedAttr<I32Attr, "0">:$lane,
                       DefaultValuedAttr<I32Attr, "0">:$skip, DefaultValuedAttr<I32Attr, "0">:$group,
                       Variadic<Weft_TokenType>:$after, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Weft_BufferType:$destination, Weft_TokenType:$done);
  let assemblyFormat = [{
    `from` $peer `` $direction `stage` $stage `microbatch` $microbatch (`width` $width^)? (`lane` $lane^)?
    (`skip` $skip^)? (`group` $group^)? (`after` $after^)? attr-dict `:` type($destination)
  }];
  let hasVerifier = 1;
}

// A collective with its sources and destinations, its group (`over`), and how it runs. Without destinations it makes
// its own buffers, `outputs`, at `offsets` of the arena.
class Weft_CollectiveOp<string mnemonic> : Weft_RankOp<mnemonic, [AttrSizedOperandSegments]> {
  let arguments = (ins Variadic<Weft_BufferType>:$sources, Variadic<Weft_BufferType>:$destinations,
                       DictionaryAttr:$over, Weft_PurposeAttr:$purpose, StrAttr:$algorithm, I32Attr:$stage,
                       Variadic<Weft_TokenType>:$after, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<Weft_BufferType>:$outputs, Weft_TokenType:$done);
  let assemblyFormat = [{
    `(` $sources `)` `into` `(` $destinations `)` `over` $over `` $purpose $algorithm `stage` $stage (`after` $after^)?
    attr-dict `:` functional-type($sources, $destinations) (`makes` type($outputs)^)?
  }];
  let hasVerifier = 1;
}

def Weft_AllReduceOp : Weft_CollectiveOp<"all_reduce"> {
  let summary = "sums each source over a group of ranks into its destination";
  let description = [{
    `over` maps each axis to the coordinates that take part (rule P8), in the forms of weft.group_all_reduce. On an axis
    that `over` does not name, only the rank's own coordinate takes part. A destination may be its source.

    ```mlir
    %t = weft.all_reduce (%g) into (%g) over {data = array<i64>} gradient_sync "ring" stage 1
        : (!weft.buffer<gradient, 64>) -> (!weft.buffer<gradient, 64>)
    ```
  }];
}

def Weft_AllGatherOp : Weft_CollectiveOp<"all_gather"> {
  let summary = "writes the members' sources one after the other into each destination";
  let description = [{
    Ranges are equal and in member order. The attributes are those of all_reduce.

    ```mlir
    %t = weft.all_gather (%part) into (%w) over {data = {block = 2 : i64}} gather_weights "ring" stage 1
        : (!weft.buffer<optimizer, 64>) -> (!weft.buffer<parameter, 128>)
    ```
  }];
}

def Weft_ReduceScatterOp : Weft_CollectiveOp<"reduce_scatter"> {
  let summary = "writes the rank's own range of the sum of the sources into each destination";
  let description = [{
    Ranges are equal and in member order. The attributes are those of all_reduce.

    ```mlir
    %t = weft.reduce_scatter (%g) into (%part) over {data = array<i64>} scatter_gradients "ring" stage 1
        : (!weft.buffer<gradient, 128>) -> (!weft.buffer<gradient, 64>)
    // Into a buffer that lives until its last reader is done.
    %new, %u = weft.reduce_scatter (%g) into () over {data = array<i64>} gradient_sync "ring" stage 1
        : (!weft.buffer<gradient, 128>) -> () makes !weft.buffer<communication, 64>
    ```
  }];
}

def Weft_DetachedOp : Weft_RankOp<"detached"> {
  let summary = "the finish of an action and of its detached steps (rule P2)";
  let description = [{
    An action that takes the result waits for the action of the token `action`, and for its detached steps too.

    ```mlir
    %all = weft.detached %done
    ```
  }];
  let arguments = (ins Weft_TokenType:$action);
  let results = (outs Weft_TokenType:$done);
  let assemblyFormat = "$action attr-dict";
}

def Weft_ReleaseOp : Weft_RankOp<"release"> {
  let summary = "ends the life of a buffer at the finish of an action";
  let arguments = (ins Weft_BufferType:$buffer, Weft_TokenType:$with);
  let assemblyFormat = "$buffer `with` $with attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Weft_RepeatAfterOp : Weft_RankOp<"repeat_after"> {
  let summary = "the action of token `early` in the next repetition waits for the action of `late` in this one";
  let arguments = (ins Weft_TokenType:$early, Weft_TokenType:$late);
  let assemblyFormat = "$early `waits` $late attr-dict";
}

#endif  // WEFT_IR_RANK_OPS_TD_
