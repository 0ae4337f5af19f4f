#include "compiler/segments/cost_of_ops.h"

#include "absl/strings/ascii.h"
#include "gtest/gtest.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace weft {
namespace {

class CostOfOps : public testing::Test {
 protected:
  CostOfOps() { context_.loadDialect<ir::WeftDialect>(); }

  // Parses a graph with these ops.
  ir::GraphOp Graph(const std::string& ops) {
    module_ = mlir::parseSourceString<mlir::ModuleOp>(
        "weft.graph @g {\n^bb0(%losses: tensor<1xf64>):\n" + ops + "\nweft.yield %losses : tensor<1xf64>\n}",
        &context_);
    return module_ ? *module_->getOps<ir::GraphOp>().begin() : ir::GraphOp();
  }
  Step StepOf(const std::string& ops) {
    ir::GraphOp graph = Graph(ops);
    return graph ? MakeStep(graph.getBody().front().getTerminator()->getPrevNode()) : Step();
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

// Every kernel has one op, found by name.
TEST_F(CostOfOps, EveryKernelHasItsOp) {
  for (int kernel = Kernel_MIN; kernel <= Kernel_MAX; ++kernel) {
    if (!Kernel_IsValid(kernel) || kernel == KERNEL_UNSPECIFIED) continue;
    std::string name = "weft." + absl::AsciiStrToLower(Kernel_Name(static_cast<Kernel>(kernel)));
    mlir::OperationName op(name, &context_);
    ASSERT_TRUE(op.isRegistered()) << name;
    EXPECT_TRUE(op.hasInterface<ir::KernelInterface>()) << name;
    EXPECT_TRUE(op.hasInterface<ir::CostInterface>()) << name;
  }
}

TEST_F(CostOfOps, Matmul) {
  Step step = StepOf(R"(
    %a = weft.parameter 0 : tensor<2x3xbf16>
    %b = weft.parameter 1 : tensor<5x3xbf16>
    %g = weft.parameter 2 : tensor<2x5xf32>
    %0 = weft.matmul %a, %b init %g {name = "fc", transpose_b} : (tensor<2x3xbf16>, tensor<5x3xbf16>, tensor<2x5xf32>)
        -> tensor<2x5xf32>)");
  EXPECT_EQ(step.kernel(), MATMUL);
  EXPECT_EQ(step.name(), "fc");
  EXPECT_TRUE(step.accumulate());
  EXPECT_TRUE(step.attributes().transpose_b());
  EXPECT_FALSE(step.attributes().transpose_a());
  EXPECT_EQ(step.work().flops(), 2 * 2 * 3 * 5);
  // Reads both operands and the old sum, writes the new sum.
  EXPECT_EQ(step.work().bytes(), 2 * (2 * 3 + 5 * 3) + 4 * (2 * 5 + 2 * 5));
  EXPECT_EQ(step.work().dtype(), BF16);
}

TEST_F(CostOfOps, MatmulInTf32) {
  const Step step = StepOf(R"(
    %a = weft.parameter 0 : tensor<2x3xf32>
    %b = weft.parameter 1 : tensor<3x5xf32>
    %0 = weft.matmul %a, %b {tf32} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>)");
  EXPECT_TRUE(step.attributes().tf32());
  // The factors of a TF32 product are stored and moved as fp32.
  EXPECT_EQ(step.work().bytes(), 4 * (2 * 3 + 3 * 5 + 2 * 5));
  EXPECT_EQ(step.work().dtype(), TF32);
}

TEST_F(CostOfOps, Attention) {
  Step step = StepOf(R"(
    %x = weft.parameter 0 : tensor<8x12xf32>
    %0:2 = weft.attention %x {causal, dropout = 0.5 : f64, dropout_site = 7 : i32, heads = 2 : i64, scale = 0.25 : f64,
        sequence = 4 : i64} : (tensor<8x12xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>))");
  EXPECT_EQ(step.work().flops(), 4 * 8 * 4 * 4);
  EXPECT_EQ(step.attributes().heads(), 2);
  EXPECT_EQ(step.attributes().sequence(), 4);
  EXPECT_TRUE(step.attributes().causal());
  EXPECT_EQ(step.attributes().scale(), 0.25);
  EXPECT_EQ(step.attributes().dropout(), 0.5);
  EXPECT_EQ(step.attributes().dropout_site(), 7);
  auto cost = mlir::cast<ir::CostInterface>(
      module_->lookupSymbol<ir::GraphOp>("g").getBody().front().getTerminator()->getPrevNode());
  // The causal mask removes S(S-1)/2 of the S x S scores of a sequence.
  EXPECT_EQ(cost.maskedFlops() * 16, cost.flops() * 6);
}

// Shared heads of keys and values change how much is read, not how much is multiplied. A window masks more than the
// causal mask alone.
TEST_F(CostOfOps, GroupedAttentionWithAWindow) {
  Step step = StepOf(R"(
    %q = weft.parameter 0 : tensor<16x4xf32>
    %k = weft.parameter 1 : tensor<16x2xf32>
    %0:2 = weft.attention %q, %k, %k {causal, heads = 2 : i64, kv_heads = 1 : i64, scale = 0.25 : f64,
        sequence = 8 : i64, window = 3 : i64} : (tensor<16x4xf32>, tensor<16x2xf32>, tensor<16x2xf32>)
        -> (tensor<16x4xf32>, tensor<16x2xf32>))");
  EXPECT_EQ(step.work().flops(), 4 * 16 * 8 * 4);
  EXPECT_EQ(step.work().bytes(), 4 * 16 * (4 + 2 + 2 + 4 + 2));
  EXPECT_EQ(step.attributes().kv_heads(), 1);
  EXPECT_EQ(step.attributes().window(), 3);
  auto cost = mlir::cast<ir::CostInterface>(
      module_->lookupSymbol<ir::GraphOp>("g").getBody().front().getTerminator()->getPrevNode());
  // Queries see 1, 2, 3, 3, ... of 8 keys: 21 of 64 scores.
  EXPECT_EQ(cost.maskedFlops() * 64, cost.flops() * (64 - 21));
}

TEST_F(CostOfOps, RopeTakesItsAttributesAlong) {
  Step step = StepOf(R"(
    %x = weft.parameter 0 : tensor<6x8xf32>
    %0 = weft.rope %x {base = 500000.0 : f64, factor = 8.0 : f64, head_size = 4 : i64, inverse, magnitude = 1.5 : f64,
        ramp_high = 4.0 : f64, ramp_low = 1.0 : f64, ramp_positions = 8192.0 : f64, sequence = 3 : i64}
        : (tensor<6x8xf32>) -> tensor<6x8xf32>)");
  EXPECT_EQ(step.kernel(), ROPE);
  EXPECT_EQ(step.work().flops(), 0);
  EXPECT_EQ(step.attributes().base(), 500000);
  EXPECT_EQ(step.attributes().factor(), 8);
  EXPECT_EQ(step.attributes().head_size(), 4);
  EXPECT_TRUE(step.attributes().inverse());
  EXPECT_EQ(step.attributes().magnitude(), 1.5);
  EXPECT_EQ(step.attributes().ramp_low(), 1);
  EXPECT_EQ(step.attributes().ramp_high(), 4);
  EXPECT_EQ(step.attributes().ramp_positions(), 8192);
}

TEST_F(CostOfOps, BackwardCountsTwiceTheProducts) {
  ir::GraphOp graph = Graph(R"(
    %x = weft.parameter 0 {layer = 0 : i32} : tensor<4x4xf32>
    %w = weft.parameter 1 {layer = 1 : i32} : tensor<4x4xf32>
    %0 = weft.matmul %x, %w {layer = 1 : i32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>)");
  ASSERT_TRUE(graph);
  auto flops = CostsOfGraph(graph, [](const Segment&, const Step& step, ActionKind kind) -> absl::StatusOr<int64_t> {
    return kind == BACKWARD ? step.work().flops() : 1;
  });
  ASSERT_TRUE(flops.ok()) << flops.status();
  EXPECT_EQ(flops->layers, (std::vector<int64_t>{0, 1 + 2 * 128}));
  EXPECT_EQ(flops->flops, 3 * 128);
  EXPECT_EQ(flops->flops_masked, 0);
}

TEST_F(CostOfOps, HugeCostsSaturate) {
  Step step = StepOf(R"(
    %a = weft.parameter 0 : tensor<1099511627776x1099511627776xf32>
    %0 = weft.matmul %a, %a : (tensor<1099511627776x1099511627776xf32>, tensor<1099511627776x1099511627776xf32>)
        -> tensor<1099511627776x1099511627776xf32>)");
  EXPECT_EQ(step.work().flops(), int64_t{1} << 62);
  EXPECT_EQ(step.work().bytes(), int64_t{1} << 62);
}

}  // namespace
}  // namespace weft
