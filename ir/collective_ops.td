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
    `over` maps an axis to who takes part (rule P8): `array<i64: 0, 2>` those coordinates, `array<i64>` all,
    `{block = n : i64}` those in the caller's block of n neighbours, `{stride = n : i64}` those at the caller's place in
    their blocks of n. `members` is the size of the group that comes of it, so that shapes can be checked without a mesh.
    A `blocking` collective waits for the compute before it, and what stands behind waits for it; a `detached` one is
    not waited for by the end of its action (rule P2).

    Every rank goes on with the sum, so as far as derivatives are concerned the op adds up what came from one value: the
    gradient of each input is that of its result.

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
    A result has the elements of all members in member order, in whatever shape. One of a weight (purpose
    `gather_weights`) may have fewer than these: of the last members what is beyond its end is left out, as far as no
    smaller parts would do. The gradient of an input is reduce-scattered; that of a weight with purpose
    `scatter_gradients`, into the weight's gradient. Attributes as those of group_all_reduce.

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
    An input's elements are cut into as many equal ranges as there are members; of purpose `scatter_gradients` they are
    filled up with zeros for that, by fewer than there are members. A result may be of another type than its input, and
    is its init's new content where there is one. The gradient of an input is all-gathered. Attributes as those of
    group_all_reduce.

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
  let summary = "the value itself, whose gradient is summed over a group";
  let description = [{
    Says that each rank of the group computes with a value that is the same on all of them, so each has a part of the
    gradient: that is all-reduced. In the forward there is nothing to do; weft-build-segments replaces the result by the
    operand. It stands in graphs only.

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
  let summary = "parameters themselves, whose gradients are cut over a group";
  let description = [{
    Says that a rank keeps only its range of the gradient of each input, of the sum over the group: they are
    reduce-scattered with purpose `scatter_gradients`. In the forward there is nothing to do; weft-build-segments
    replaces the results by the inputs. It stands in graphs only.

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
