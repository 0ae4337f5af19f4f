#include "ir/interfaces.h"

#include "gtest/gtest.h"
#include "ir/graph_ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

namespace weft::ir {
namespace {

constexpr char kGraph[] = R"(
weft.graph @g {
^bb0(%losses: tensor<1xf64>):
  %tokens = weft.load_tokens : tensor<6xi32>
  %table = weft.parameter 0 : tensor<8x4xf32>
  %gamma = weft.parameter 1 : tensor<4xf32>
  %w = weft.parameter 2 : tensor<4x4xf32>
  %x = weft.embedding %tokens, %table : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %n, %mean, %rstd = weft.layer_norm %x, %gamma, %gamma {epsilon = 1.0e-5 : f64}
      : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>)
  %a = weft.matmul %n, %w bias %gamma : (tensor<6x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %b = weft.matmul %a, %w init %n {transpose_b} : (tensor<6x4xf32>, tensor<4x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %c = weft.gelu %b : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %d = weft.dropout %c {dropout = 0.1 : f64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %e = weft.cast %d : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %f = weft.add %e, %x : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %g, %rms = weft.rms_norm %f, %gamma {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>)
      -> (tensor<6x4xf32>, tensor<6xf32>)
  %h = weft.rope %g {base = 100.0 : f64, magnitude = 1.0 : f64, head_size = 2 : i64, sequence = 3 : i64}
      : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %i = weft.swiglu %g, %h : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %qkv = weft.parameter 3 : tensor<6x12xf32>
  %j, %lse = weft.attention %qkv {heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xf32>)
      -> (tensor<6x4xf32>, tensor<6x2xf32>)
  %l, %lse2 = weft.attention %h, %i, %i {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64}
      : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.yield %losses : tensor<1xf64>
})";

class Interfaces : public testing::Test {
 protected:
  Interfaces() {
    context_.loadDialect<WeftDialect>();
    module_ = mlir::parseSourceString<mlir::ModuleOp>(kGraph, &context_);
  }

  template <typename Op>
  std::vector<Op> Ops() {
    std::vector<Op> ops;
    module_->walk([&](Op op) { ops.push_back(op); });
    return ops;
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

// A tied result has the type of its operand. The last operand is an input of the step unless the op accumulates into
// it.
TEST_F(Interfaces, TiedOperandsHaveTheResultsType) {
  for (KernelInterface op : Ops<KernelInterface>()) {
    for (mlir::OpResult result : op->getResults()) {
      int tied = op.getTiedOperand(result.getResultNumber());
      if (tied < 0) continue;
      EXPECT_EQ(op->getOperand(tied).getType(), result.getType());
    }
    if (op->getNumOperands() == 0) continue;
    EXPECT_EQ(op.accumulates(), !op.isStepInput(op->getNumOperands() - 1)) << op->getName().getStringRef().str();
  }
}

TEST(Costs, Saturate) {
  EXPECT_EQ(SaturatingMultiply(int64_t{1} << 40, int64_t{1} << 40), kCostLimit);
  EXPECT_EQ(SaturatingMultiply(3, 4), 12);
  EXPECT_EQ(SaturatingAdd(kCostLimit, kCostLimit), kCostLimit);
  EXPECT_EQ(SaturatingAdd(3, 4), 7);
}

}  // namespace
}  // namespace weft::ir
