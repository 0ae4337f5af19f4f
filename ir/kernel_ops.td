// Base classes of the ops that become steps.
#ifndef WEFT_IR_KERNEL_OPS_TD_
#define WEFT_IR_KERNEL_OPS_TD_

include "ir/dialect.td"
include "ir/interfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Weft_KernelOp<string mnemonic, list<Trait> traits = []>
    : Weft_Op<mnemonic, [Pure, Weft_KernelInterface, Weft_CostInterface] # traits> {
  // The kernel's methods for its storage and its cost; see the interfaces.
  code kernelMethods = "";
  let extraClassDeclaration = kernelMethods;
}

def Weft_Differentiable : DeclareOpInterfaceMethods<Weft_DifferentiableInterface>;
def Weft_Shardable : DeclareOpInterfaceMethods<Weft_ShardableInterface, ["shard"]>;
// For ops that also define runsOfOperand.
def Weft_ShardableInRuns : DeclareOpInterfaceMethods<Weft_ShardableInterface, ["shard", "runsOfOperand"]>;
def Weft_ShardableByElement : DeclareOpInterfaceMethods<Weft_ShardableInterface>;

// Where the rank's part of a sharded matrix begins in the whole matrix (rule P8): axis -> stride, as in {x = 24 : i64}.
def Weft_ShiftAttr : DictionaryAttrBase<CPred<"::mlir::isa<::mlir::DictionaryAttr>($_self)">, "strides by axis"> {
  let constBuilderCall = "$_builder.getDictionaryAttr($0)";
}
def Weft_Shift : DefaultValuedAttr<Weft_ShiftAttr, "{}">;

// For an op whose last operand, `init`, is optional and is added to result 0 in place.
class Weft_AccumulatingOp<string mnemonic, list<Trait> traits = []> : Weft_KernelOp<mnemonic, traits> {
  let kernelMethods = [{
    int getTiedOperand(unsigned result) { return getInit() ? static_cast<int>((*this)->getNumOperands()) - 1 : -1; }
    bool isStepInput(unsigned index) { return !getInit() || index + 1 != (*this)->getNumOperands(); }
    bool accumulates() { return static_cast<bool>(getInit()); }
  }];
}

// The attributes that attention and its backward share.
defvar Weft_AttentionAttributes = (ins I64Attr:$heads, I64Attr:$sequence, UnitAttr:$causal, F64Attr:$scale,
                                       DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                                       DefaultValuedAttr<I32Attr, "0">:$dropout_site,
                                       DefaultValuedAttr<I64Attr, "0">:$kv_heads,
                                       DefaultValuedAttr<I64Attr, "0">:$window,
                                       Weft_Shift:$column_shift, DefaultValuedAttr<I64Attr, "0">:$whole_columns,
                                       UnitAttr:$qkv_by_head);
// Attributes of dropout. With `heads`, x is [rows, heads * sequence] and its elements are attention probabilities;
// `column_shift` and `whole_columns` then count heads.
defvar Weft_DropoutAttributes = (ins F64Attr:$dropout, DefaultValuedAttr<I32Attr, "0">:$dropout_site,
                                     Weft_Shift:$column_shift, Weft_Shift:$row_shift,
                                     DefaultValuedAttr<I64Attr, "0">:$whole_columns,
                                     DefaultValuedAttr<I64Attr, "0">:$sequence,
                                     DefaultValuedAttr<I64Attr, "0">:$heads);
// Attributes of the ops that load tokens and targets.
defvar Weft_MaskingAttributes = (ins DefaultValuedAttr<I64Attr, "0">:$masked,
                                     DefaultValuedAttr<I64Attr, "0">:$mask_token,
                                     DefaultValuedAttr<I64Attr, "0">:$vocabulary);

#endif  // WEFT_IR_KERNEL_OPS_TD_
