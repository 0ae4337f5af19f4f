// Tests the segments of an optimizer step: which segments there are, what they read, and what they write.
#include <map>
#include <string>
#include <vector>

#include "compiler/backward/build_segments.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

namespace weft {
namespace {

using ir::SegmentKind;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// Returns the role as text. For example, "grad 0.1" is the gradient of use 1 of tensor 0.
std::string Name(ir::RoleAttr role) {
  std::string name = ir::stringifyRole(role.getRole()).str();
  if (role.getTensor() >= 0) name += " " + std::to_string(role.getTensor());
  if (role.getUse() > 0) name += "." + std::to_string(role.getUse());
  return name;
}

class StepSegmentsTest : public testing::Test {
 protected:
  StepSegmentsTest() {
    context_.loadDialect<ir::WeftDialect>();
    mlir::Builder builder(&context_);
    training_.grads = training_.master = training_.moments = builder.getF32Type();
  }

  // Builds the segments. `tensors` are the types and attributes of the tensors. Each tensor is used once and the rank
  // writes its norm, unless content_ says otherwise.
  void Build(const std::vector<std::string>& tensors) {
    std::string text;
    for (size_t i = 0; i < tensors.size(); ++i) {
      text +=
          "weft.tensor @t" + std::to_string(i) + " index " + std::to_string(i) + " shape [8, 4] : " + tensors[i] + "\n";
    }
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    ASSERT_TRUE(module_) << text;
    std::vector<TensorInfo> infos;
    for (auto tensor : module_->getOps<ir::TensorOp>()) infos.push_back({tensor});
    if (content_.tensors.empty()) {
      for (size_t i = 0; i < tensors.size(); ++i) content_.tensors.push_back({static_cast<int32_t>(i), {0}, {0}, true});
    }
    content_.stages = {2, 5};
    mlir::OpBuilder builder(module_->getBody(), module_->getBody()->end());
    BuildStepSegments(builder, /*rank=*/3, content_, infos, training_);
    ASSERT_TRUE(mlir::succeeded(mlir::verify(*module_)));
    segments_.clear();
    kinds_.clear();
    for (auto segment : module_->getOps<ir::SegmentOp>()) {
      kinds_.push_back(segment.getKind());
      segments_[segment.getKind()] = segment;
      EXPECT_EQ(segment.getStage(), 2u);
      ASSERT_TRUE(segment.getRank().has_value());
      EXPECT_EQ(*segment.getRank(), 3u);
    }
  }

  std::vector<std::string> Reads(SegmentKind kind) {
    std::vector<std::string> names;
    for (mlir::Attribute role : segments_.at(kind).getArgRoles()) names.push_back(Name(mlir::cast<ir::RoleAttr>(role)));
    return names;
  }
  std::vector<std::string> Leaves(SegmentKind kind) {
    std::vector<std::string> names;
    for (mlir::Attribute role : segments_.at(kind).getResultRoles()) {
      names.push_back(Name(mlir::cast<ir::RoleAttr>(role)));
    }
    return names;
  }
  template <typename Op>
  std::vector<Op> Ops(SegmentKind kind) {
    std::vector<Op> ops;
    segments_.at(kind).walk([&](Op op) { ops.push_back(op); });
    return ops;
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  Training training_;
  RankContent content_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::map<SegmentKind, ir::SegmentOp> segments_;
  std::vector<SegmentKind> kinds_;
};

constexpr char kWhole[] = "tensor<8x4xf32>";
constexpr char kHalf[] = "tensor<8x4xbf16>";

TEST_F(StepSegmentsTest, WhichThereAre) {
  Build({kWhole});
  EXPECT_THAT(kinds_, ElementsAre(SegmentKind::GradNorm, SegmentKind::OptimizerStep));
  training_.clip_norm = 1;
  Build({kWhole});
  EXPECT_THAT(kinds_, ElementsAre(SegmentKind::GradNorm, SegmentKind::ScaleGradients, SegmentKind::OptimizerStep));
  // With a loss scale the update undoes the scale and clips.
  training_.loss_scale = 8;
  Build({kWhole});
  EXPECT_THAT(kinds_, ElementsAre(SegmentKind::GradNorm, SegmentKind::OptimizerStep));
  training_ = {.grads = training_.grads, .master = training_.master, .moments = training_.moments};
  training_.asynchronous = true;
  Build({kWhole});
  EXPECT_THAT(kinds_, ElementsAre(SegmentKind::OptimizerStep));
}

// Rule P9: the gradients of all uses are added into the buffer of the first use, in model order. Every gradient is zero
// again after the update.
TEST_F(StepSegmentsTest, UsesAreAddedOnceTheirNormIsTaken) {
  content_.tensors = {{0, {1, 2, 4}, {1, 4}, true}, {1, {0}, {0}, false}, {2, {0}, {0}, true}};
  Build({kWhole, kWhole, kWhole});
  // Another rank takes the norm of tensor 1, and tensor 1 has only one use, so grad_norm does not read its gradient.
  EXPECT_THAT(Reads(SegmentKind::GradNorm), ElementsAre("grad 0.1", "grad 0.2", "grad 0.4", "grad 2", "local_norms"));
  EXPECT_THAT(Leaves(SegmentKind::GradNorm), ElementsAre("grad 0.1", "local_norms"));
  auto adds = Ops<ir::AddOp>(SegmentKind::GradNorm);
  ASSERT_EQ(adds.size(), 2u);
  EXPECT_TRUE(adds[1]->getOperand(0) == adds[0]->getResult(0));
  auto norms = Ops<ir::SquaredNormOp>(SegmentKind::GradNorm);
  ASSERT_EQ(norms.size(), 2u);
  EXPECT_TRUE(norms[0].getX() == adds[1]->getResult(0));
  EXPECT_EQ(norms[0].getSlot(), 0u);
  EXPECT_EQ(norms[1].getSlot(), 2u);
  EXPECT_THAT(Leaves(SegmentKind::OptimizerStep),
              ElementsAre("norm", "param 0", "moment1 0", "moment2 0", "param 1", "moment1 1", "moment2 1", "param 2",
                          "moment1 2", "moment2 2", "grad 0.1", "grad 0.2", "grad 0.4", "grad 1", "grad 2"));
  EXPECT_EQ(Ops<ir::FillOp>(SegmentKind::OptimizerStep).size(), 5u);
}

TEST_F(StepSegmentsTest, ExactSumsAreRoundedAndTheirAccumulatorsZero) {
  training_.accumulation = EXACT;
  content_.tensors = {{0, {0, 1}, {0, 1}, true}, {1, {0}, {0}, false}};
  Build({kWhole, kWhole});
  EXPECT_THAT(Reads(SegmentKind::GradNorm),
              ElementsAre("grad_accumulator 0", "grad_accumulator 0.1", "grad_accumulator 1", "local_norms"));
  // All gradients are rounded, including the one whose norm another rank takes.
  EXPECT_EQ(Ops<ir::ExactRoundOp>(SegmentKind::GradNorm).size(), 2u);
  EXPECT_EQ(Ops<ir::FillOp>(SegmentKind::GradNorm).size(), 3u);
  EXPECT_THAT(Leaves(SegmentKind::GradNorm),
              ::testing::UnorderedElementsAre("grad 0", "grad 1", "local_norms", "grad_accumulator 0",
                                              "grad_accumulator 0.1", "grad_accumulator 1"));
  auto norms = Ops<ir::SquaredNormOp>(SegmentKind::GradNorm);
  ASSERT_EQ(norms.size(), 1u);
  EXPECT_TRUE(
      mlir::isa<ir::Exact192Type>(mlir::cast<mlir::RankedTensorType>(norms[0].getNorms().getType()).getElementType()));
  // Only the first use has a gradient of its own type.
  EXPECT_THAT(Leaves(SegmentKind::OptimizerStep), Not(Contains("grad 0.1")));
  EXPECT_EQ(Ops<ir::FillOp>(SegmentKind::OptimizerStep).size(), 2u);
}

TEST_F(StepSegmentsTest, OptimizerReturnsItsStates) {
  // If compute reads weights of the optimizer's own type, there is only one copy.
  Build({kWhole, kHalf});
  EXPECT_THAT(Leaves(SegmentKind::OptimizerStep), ElementsAre("norm", "param 0", "moment1 0", "moment2 0", "master 1",
                                                              "moment1 1", "moment2 1", "param 1", "grad 0", "grad 1"));
  EXPECT_EQ(Ops<ir::AdamwOp>(SegmentKind::OptimizerStep).size(), 2u);
  // Without a flush there are always two copies (rule P14), and there is no norm.
  training_.asynchronous = true;
  training_.adamw = false;
  content_.tensors.clear();
  Build({kWhole});
  EXPECT_THAT(Leaves(SegmentKind::OptimizerStep), ElementsAre("master 0", "param 0", "grad 0"));
  training_.asynchronous = false;
  training_.momentum = 0.5;
  Build({kWhole});
  EXPECT_THAT(Reads(SegmentKind::OptimizerStep), ElementsAre("param 0", "grad 0", "moment1 0", "norms"));
  EXPECT_EQ(Ops<ir::SgdStepOp>(SegmentKind::OptimizerStep).size(), 1u);
}

TEST_F(StepSegmentsTest, OnlyWhatIsRoundedIsRoundedAtRandom) {
  training_.stochastic_rounding = true;
  Build({kWhole, kHalf, kHalf});
  std::vector<int> sites;
  for (ir::AdamwOp op : Ops<ir::AdamwOp>(SegmentKind::OptimizerStep)) sites.push_back(op.getRoundingSite());
  EXPECT_THAT(sites, ElementsAre(0, 2, 3));
}

// Norms are summed over every axis that cuts some gradient. Where such an axis does not cut this gradient, only one of
// the copies counts.
TEST_F(StepSegmentsTest, CopiesCountOnce) {
  Build(
      {"tensor<4x4xf32> {padded = array<i64: 8, 4>, cuts = {x = array<i64: 0, 1>}}", kWhole,
       "tensor<16xf32> {padded = array<i64: 8, 4>, ranges = [\"z\"], grad_ranges = [\"z\"], state_ranges = [\"z\"]}"});
  std::vector<std::vector<std::string>> once;
  for (ir::SquaredNormOp op : Ops<ir::SquaredNormOp>(SegmentKind::GradNorm)) {
    std::vector<std::string>& axes = once.emplace_back();
    for (auto axis : op.getCountedOnce().getAsRange<mlir::StringAttr>()) axes.push_back(axis.str());
  }
  EXPECT_THAT(once, ElementsAre(ElementsAre("z"), ElementsAre("x", "z"), ElementsAre("x")));
}

// ZeRO 1: the optimizer reads a part of the gradient, made for this iteration, and its part of the parameter is
// gathered.
TEST_F(StepSegmentsTest, PartsOfZero) {
  const std::string cut = " {state_ranges = [\"data\"], state_type = tensor<16xf32>}";
  training_.clip_norm = 1;
  Build({kWhole + cut});
  EXPECT_THAT(Reads(SegmentKind::GradNorm), ElementsAre("local_norms", "grad_part 0"));
  EXPECT_THAT(Leaves(SegmentKind::ScaleGradients), ElementsAre("norm", "grad_part 0"));
  // The weights have the optimizer's own type, so the gather reads what the optimizer keeps. The whole gradient is zero
  // again.
  EXPECT_THAT(Leaves(SegmentKind::OptimizerStep), ElementsAre("master 0", "moment1 0", "moment2 0", "grad 0"));
  ASSERT_EQ(Ops<ir::FillOp>(SegmentKind::OptimizerStep).size(), 1u);
  EXPECT_EQ(mlir::cast<mlir::RankedTensorType>(Ops<ir::FillOp>(SegmentKind::OptimizerStep)[0]->getResult(0).getType())
                .getNumElements(),
            32);
  Build({"tensor<8x4xbf16> {state_ranges = [\"data\"], state_type = tensor<16xbf16>}"});
  EXPECT_THAT(Leaves(SegmentKind::OptimizerStep),
              ElementsAre("master 0", "moment1 0", "moment2 0", "param_part 0", "grad 0"));
  // Exact accumulation rounds the part's accumulator, and keeps nothing of the gradient's own type.
  training_.accumulation = EXACT;
  Build({kWhole + cut});
  EXPECT_THAT(Reads(SegmentKind::GradNorm), Contains("grad_accumulator_part 0"));
  EXPECT_THAT(Ops<ir::FillOp>(SegmentKind::OptimizerStep), IsEmpty());
}

TEST_F(StepSegmentsTest, AScaleThatGrowsIsUpdated) {
  training_.loss_scale = 1024;
  Build({kWhole});
  EXPECT_THAT(Reads(SegmentKind::OptimizerStep), Not(Contains("loss_scale")));
  EXPECT_THAT(Ops<ir::UpdateLossScaleOp>(SegmentKind::OptimizerStep), IsEmpty());
  ASSERT_EQ(Ops<ir::NormTotalOp>(SegmentKind::OptimizerStep).size(), 1u);
  training_.growth_interval = 7;
  Build({kWhole});
  EXPECT_THAT(Reads(SegmentKind::OptimizerStep), Contains("loss_scale"));
  EXPECT_THAT(Leaves(SegmentKind::OptimizerStep), Contains("loss_scale"));
  EXPECT_EQ(Ops<ir::UpdateLossScaleOp>(SegmentKind::OptimizerStep).size(), 1u);
}

}  // namespace
}  // namespace weft
