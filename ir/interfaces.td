// Interfaces of graph-level ops that the compiler uses.
#ifndef WEFT_IR_INTERFACES_TD_
#define WEFT_IR_INTERFACES_TD_

include "mlir/IR/OpBase.td"

def Weft_KernelInterface : OpInterface<"KernelInterface"> {
  let cppNamespace = "::weft::ir";
  let description = [{
    An op that becomes one step of a program. The step runs the kernel whose name is the op's mnemonic in upper case.
    The interface says which operands are the step's inputs and which results share an operand's storage.
  }];
  let methods = [
    InterfaceMethod<"Index of the operand whose storage `result` takes over (the kernel updates it in place); -1 if the "
                    "result has storage of its own.",
                    "int", "getTiedOperand", (ins "unsigned":$result), [{}], [{ return -1; }]>,
    InterfaceMethod<"Whether operand `index` is among the step's inputs. An operand that the kernel only "
                    "updates is not.",
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
    InterfaceMethod<"The flops() that count for model flops utilization (MFU): all but those that a kernel computes "
                    "a second time only to save memory.",
                    "int64_t", "modelFlops", (ins), [{}], [{ return $_op.flops(); }]>,
    InterfaceMethod<"The part of modelFlops() that a causal mask makes unnecessary.",
                    "int64_t", "maskedFlops", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<"Bytes read and written: every operand and every result counts once.",
                    "int64_t", "bytes", (ins), [{}], [{ return ::weft::ir::BytesOfOperandsAndResults($_op); }]>,
  ];
}

def Weft_DifferentiableInterface : OpInterface<"DifferentiableInterface"> {
  let cppNamespace = "::weft::ir";
  let description = [{
    Builds the ops of the reverse pass. Wherever the kernels allow it, gradients of different operands come from
    different ops, so that a schedule can compute gradients of activations and gradients of parameters at different
    times. The ops may use operands and results of the forward op; the forward must save those that they use.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds, at `builder`, ops that compute the requested gradients of operands from the gradients of the results.
      `requests` has one entry per operand. A null result gradient stands for zero, or for one if the result is the
      loss. Returns one value per operand: null if its gradient was not requested or is zero.
    }], "::llvm::SmallVector<::mlir::Value>", "buildBackward",
        (ins "::mlir::OpBuilder&":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
             "::llvm::ArrayRef<::weft::ir::GradientRequest>":$requests)>,
  ];
}

def Weft_ShardableInterface : OpInterface<"ShardableInterface"> {
  let cppNamespace = "::weft::ir";
  let description = [{
    How the op is split over the tensor-parallel axes x, y, z (docs/tensor_parallelism.md). An op that works element by
    element needs no methods of its own.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds, before the op, the ops that replace it on a rank's parts of its operands, and gives the sharder the parts
      of its results (ir/sharder.h). Emits errors at the op.
    }], "::mlir::LogicalResult", "shard", (ins "::weft::ir::Sharder&":$sharder), [{}],
        [{ return ::weft::ir::ShardElementByElement($_op, sharder); }]>,
    InterfaceMethod<[{
      Returns the number of equal runs of columns in operand `index` if result 0 has `resultRuns` of them. Each run is
      cut by itself: a matrix with q, k and v side by side has 3 runs. 0 means that any number will do.
    }], "int64_t", "runsOfOperand", (ins "unsigned":$index, "int64_t":$resultRuns), [{}], [{ return resultRuns; }]>,
  ];
}

#endif  // WEFT_IR_INTERFACES_TD_
