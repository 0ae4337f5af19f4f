// Collectives among the kernels of a segment, and their placeholders in the backward. docs/kernels.md defines each
// kernel, docs/tensor_parallelism.md states where they are inserted.
#ifndef WEFT_IR_COLLECTIVE_OPS_TD_
#define WEFT_IR_COLLECTIVE_OPS_TD_

include "ir/kernel_ops.td"

// The attributes with which every collective describes its group. Groups have at least two members: a group of one has
// no collective.
defvar Weft_GroupAttributes = (ins DictionaryAttr:$over, I64Attr:$members, Weft_PurposeAttr:$purpose,
                                   StrAttr:$algorithm);

class Weft_GroupOp<string mnemonic, list<Trait> traits = []>
    : Weft_KernelOp<mnemonic, [Weft_Differentiable] # traits> {
  // Work counts the bytes of inputs and outputs.
  let kernelMethods = "int64_t bytes();";
  let hasVerifier = 1;
}

def Weft_GroupAllReduceOp : Weft_GroupOp<"group_all_reduce"> {
  let summary = "sums each input over a group of ranks";
  let description = [{
    `over` maps each axis to the coordinates that take part (rule P8):

    - `array<i64: 0, 2>`: these coordinates.
    - `array<i64>`: all coordinates.
    - `{block = n : i64}`: the coordinates in the caller's block of n neighbors.
    - `{stride = n : i64}`: in every block of n, the coordinate at the caller's place in its own block.

    `members` is the size of the resulting group; with it, shapes can be checked without a mesh. A `blocking` collective
    waits for the compute steps before it, and the steps after it wait for the collective. The end of an action does not
    wait for a `detached` collective (rule P2).

    Every rank continues with the same sum. The gradient of each input is therefore the gradient of its result.

    ```mlir
    %y = weft.group_all_reduce (%x) over {x = array<i64>} members 2 tensor "ring" {blocking}
        : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = !con((ins Variadic<Weft_Addend>:$inputs), Weft_GroupAttributes,
                       (ins UnitAttr:$blocking, UnitAttr:$detached));
  let results = (outs Variadic<Weft_Addend>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` `over` $over `members` $members `` $purpose $algorithm attr-dict
    `:` functional-type(operands, results)
  }];
}

def Weft_GroupAllGatherOp : Weft_GroupOp<"group_all_gather"> {
  let summary = "the members' inputs, one after the other";
  let description = [{
    A result has the elements of all members in member order; its shape is free. The result for a weight (purpose
    `gather_weights`) may have fewer elements than all members together: elements beyond its end, which the last members
    hold, are left out. The parts must still be as small as possible. The gradient of an input is reduce-scattered. For
    a weight the reduce-scatter has the purpose `scatter_gradients` and adds to the weight's gradient. The attributes
    are those of group_all_reduce.

    ```mlir
    %w = weft.group_all_gather (%part) over {z = array<i64>} members 4 gather_weights "ring" {blocking}
        : (tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = !con((ins Variadic<Weft_AnyTensor>:$inputs), Weft_GroupAttributes,
                       (ins UnitAttr:$blocking, UnitAttr:$detached));
  let results = (outs Variadic<Weft_AnyTensor>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` `over` $over `members` $members `` $purpose $algorithm attr-dict
    `:` functional-type(operands, results)
  }];
}

def Weft_GroupReduceScatterOp : Weft_GroupOp<"group_reduce_scatter", [AttrSizedOperandSegments]> {
  let summary = "the member's own range of the sum of the members' inputs, added to the inits if there are any";
  let description = [{
    The elements of an input are cut into equal ranges, one for each member. With purpose `scatter_gradients`, the input
    is first padded with zeros to a multiple of the number of members. A result may have another type than its input. If
    there are inits, each result is the new content of its init. The gradient of an input is all-gathered. The
    attributes are those of group_all_reduce.

    ```mlir
    %g1 = weft.group_reduce_scatter (%dw) init (%g) over {z = array<i64>} members 4 scatter_gradients "ring" {blocking}
        : (tensor<4x8xbf16>, tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = !con((ins Variadic<Weft_Addend>:$inputs, Variadic<Weft_Addend>:$inits), Weft_GroupAttributes,
                       (ins UnitAttr:$blocking, UnitAttr:$detached));
  let results = (outs Variadic<Weft_Addend>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` (`init` `(` $inits^ `)`)? `over` $over `members` $members `` $purpose $algorithm attr-dict
    `:` functional-type(operands, results)
  }];
  let kernelMethods = [{
    int64_t bytes();
    int getTiedOperand(unsigned result) {
      return getInits().empty() ? -1 : static_cast<int>(getInputs().size() + result);
    }
    bool isStepInput(unsigned index) { return index < getInputs().size(); }
    bool accumulates() { return !getInits().empty(); }
  }];
}

def Weft_FanOutOp : Weft_Op<"fan_out", [Pure, Weft_Differentiable, AllTypesMatch<["x", "result"]>]> {
  let summary = "returns its operand; the gradient of the operand is summed over a group";
  let description = [{
    Every rank of the group computes with a value that is the same on all of them, so each rank has one addend of the
    value's gradient; the backward all-reduces them. The forward does nothing: weft-build-segments replaces the result
    by the operand. The op stands in graphs only.

    ```mlir
    %1 = weft.fan_out %0 over {x = array<i64>} members 2 tensor "ring" : tensor<4x8xf32>
    ```
  }];
  let arguments = !con((ins Weft_FloatTensor:$x), Weft_GroupAttributes);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = [{
    $x `over` $over `members` $members `` $purpose $algorithm attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Weft_CutGradientsOp : Weft_Op<"cut_gradients", [Pure, Weft_Differentiable]> {
  let summary = "returns its operands; their gradients are summed over a group, and each rank keeps its range";
  let description = [{
    The inputs are parameters. The backward reduce-scatters their gradients over the group, with purpose
    `scatter_gradients`, so each rank keeps only its range of the sum. The forward does nothing: weft-build-segments
    replaces the results by the inputs. The op stands in graphs only.

    ```mlir
    %w1 = weft.cut_gradients (%w) over {data = array<i64>} members 2 "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Weft_FloatTensor>:$inputs, DictionaryAttr:$over, I64Attr:$members, StrAttr:$algorithm);
  let results = (outs Variadic<Weft_FloatTensor>:$outputs);
  let assemblyFormat = [{
    `(` $inputs `)` `over` $over `members` $members $algorithm attr-dict `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

#endif  // WEFT_IR_COLLECTIVE_OPS_TD_
