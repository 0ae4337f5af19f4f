// Interfaces of graph-level ops that the compiler uses.
#ifndef WEFT_IR_INTERFACES_TD_
#define WEFT_IR_INTERFACES_TD_

include "mlir/IR/OpBase.td"

def Weft_KernelInterface : OpInterface<"KernelInterface"> {
  let cppNamespace = "::weft::ir";
  let description = [{
    An op that becomes one step of a program: the kernel whose name is the op's mnemonic in upper case. Says which
    operands are the step's inputs and which results take an operand's storage.
  }];
  let methods = [
    InterfaceMethod<"Index of the operand whose storage `result` takes over (the kernel updates it in place); -1 if the "
                    "result has storage of its own.",
                    "int", "getTiedOperand", (ins "unsigned":$result), [{}], [{ return -1; }]>,
    InterfaceMethod<"Whether operand `index` is among the step's inputs. An operand that is only there to be updated is "
                    "not.",
                    "bool", "isStepInput", (ins "unsigned":$index), [{}], [{ return true; }]>,
    InterfaceMethod<"Whether the step adds its result to the storage of result 0 (Step.accumulate).",
                    "bool", "accumulates", (ins), [{}], [{ return false; }]>,
  ];
}

def Weft_CostInterface : OpInterface<"CostInterface"> {
  let cppNamespace = "::weft::ir";
  let description = "What an op costs: the figures of `Work` in proto/program.proto. Saturates at 2^62.";
  let methods = [
    InterfaceMethod<"Floating-point operations of matrix products, a multiply-add counting as 2; 0 for ops bound by "
                    "memory.",
                    "int64_t", "flops", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<"The part of flops() that the model asks for, as utilisation (MFU) counts it: without what a kernel "
                    "computes a second time only to save memory.",
                    "int64_t", "modelFlops", (ins), [{}], [{ return $_op.flops(); }]>,
    InterfaceMethod<"The part of modelFlops() that a causal mask makes unnecessary.",
                    "int64_t", "maskedFlops", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<"Bytes read and written: every operand and every result once.",
                    "int64_t", "bytes", (ins), [{}], [{ return ::weft::ir::BytesOfOperandsAndResults($_op); }]>,
  ];
}

def Weft_DifferentiableInterface : OpInterface<"DifferentiableInterface"> {
  let cppNamespace = "::weft::ir";
  let description = [{
    Builds the ops of the reverse pass. Gradients of different operands come from different ops wherever the kernels
    allow it, so that a schedule can run those of activations and those of parameters apart. The ops may use the
    operands and results of the forward op: those are what the forward has to save.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds ops at `builder` that compute the gradients of the operands that `requests` (one per operand) asks for, from
      the gradients of the results (null = zero, or for the loss: one). Returns one value per operand, null where
      nothing was asked for or the gradient is zero.
    }], "::llvm::SmallVector<::mlir::Value>", "buildBackward",
        (ins "::mlir::OpBuilder&":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
             "::llvm::ArrayRef<::weft::ir::GradientRequest>":$requests)>,
  ];
}

def Weft_ShardableInterface : OpInterface<"ShardableInterface"> {
  let cppNamespace = "::weft::ir";
  let description = [{
    How the op is split over the tensor-parallel axes x, y, z (docs/tensor_parallelism.md). An op that works element by
    element needs nothing but the interface.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds what becomes of the op on a rank's parts of its operands, in front of it, and tells the sharder the parts of
      its results (ir/sharder.h). Errors are emitted at the op.
    }], "::mlir::LogicalResult", "shard", (ins "::weft::ir::Sharder&":$sharder), [{}],
        [{ return ::weft::ir::ShardElementByElement($_op, sharder); }]>,
    InterfaceMethod<[{
      Of how many equal runs the columns of operand `index` are made, each of which is cut, if those of result 0 are made
      of `resultRuns`: 3 of a matrix with q, k and v side by side. 0 = it makes no difference.
    }], "int64_t", "runsOfOperand", (ins "unsigned":$index, "int64_t":$resultRuns), [{}], [{ return resultRuns; }]>,
  ];
}

#endif  // WEFT_IR_INTERFACES_TD_
