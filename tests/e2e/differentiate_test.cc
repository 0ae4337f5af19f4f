// Every differentiable op agrees with finite differences. The compiler differentiates a model around the op and exports
// it, and the cpu backend runs it in fp64.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/export/export_segments.h"
#include "compiler/passes/passes.h"
#include "compiler/segments/segment_set.h"
#include "executor/interface/backend.h"
#include "gtest/gtest.h"
#include "ir/graph_ops.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "tests/e2e/differentiate_cases.h"
#include "tests/e2e/segment_run.h"

namespace weft {
namespace {

constexpr unsigned kSeed = 11;
constexpr int64_t kSequences = 2;
constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-7;

// Tokens and targets are a function of the sample's number. One target is masked.
class FixedData : public exec::DataSource {
 public:
  int64_t windows() const override { return 16; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((sample * 5 + i * 3 + 1) % 7);
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>((sample * 2 + i * 4 + 3) % 7);
    if (sample == 1 && !targets.empty()) targets[0] = -1;
    return absl::OkStatus();
  }
};

struct Variant {
  int stages = 1;
  std::string recompute = "none";
  std::string accumulation = "in_order";
  // Cut one layer per stage, whatever the layers cost.
  bool by_layer = false;
  bool halves = false;
};

// A compiled model with its buffers. It runs on one thread.
class Model {
 public:
  Model(const DifferentiateCase& c, const Variant& variant) : backend_(exec::MakeCpuBackend(1)) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<ir::WeftDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(ModelText(c, variant.accumulation), &context);
    if (!module) return;
    mlir::PassManager passes(&context);
    PartitionStagesOptions partition;
    partition.stages = variant.stages;
    std::vector<int32_t> one_each(variant.stages, 1);
    if (variant.by_layer) partition.layersPerStage = one_each;
    passes.addPass(createPartitionStages(partition));
    BuildSegmentsOptions build;
    build.recompute = variant.recompute;
    build.wholeBackward = !variant.halves;
    build.splitBackward = variant.halves;
    passes.addPass(createBuildSegments(build));
    if (mlir::failed(passes.run(*module))) return;
    absl::StatusOr<SegmentSet> set = ExportSegments(*module);
    EXPECT_TRUE(set.ok()) << set.status();
    if (set.ok()) set_ = *std::move(set);
  }

  bool ok() const { return !set_.stages.empty(); }
  const SegmentSet& set() const { return set_; }

  // The tensor's storage; all stages share it.
  absl::Span<double> Tensor(ir::Role role, int32_t tensor) {
    for (const StageSegment& segment : set_.segments) {
      for (const SegmentOperand& operand : segment.operands) {
        if (operand.role != role || operand.tensor != tensor || operand.use != 0) continue;
        return {reinterpret_cast<double*>(Buffer(segment.stage, operand).data()),
                static_cast<size_t>(operand.bytes / 8)};
      }
    }
    return {};
  }

  double Loss() {
    for (const StageIndex& stage : set_.stages) Run(stage.forward);
    return Tensor(ir::Role::LocalLosses, -1)[0];
  }
  void Backward() {
    for (size_t i = set_.stages.size(); i-- > 0;) {
      const StageIndex& stage = set_.stages[i];
      if (stage.backward >= 0) Run(stage.backward);
      if (stage.backward_input >= 0) Run(stage.backward_input);
    }
    for (const StageIndex& stage : set_.stages) {
      if (stage.backward_weight >= 0) Run(stage.backward_weight);
    }
    for (const RankIndex& rank : set_.ranks) {
      if (rank.grad_norm >= 0) Run(rank.grad_norm);
    }
  }

 private:
  // Returns the operand's buffer. The input of stage s + 1 is in the buffer of the output of stage s, and its gradient
  // is in the buffer of the output gradient of stage s.
  Bytes& Buffer(int32_t stage, const SegmentOperand& operand) {
    std::string place = absl::StrCat(ir::stringifyRole(operand.role).str(), " ", stage);
    if (operand.role == ir::Role::Input) place = absl::StrCat("output ", stage - 1);
    if (operand.role == ir::Role::InputGrad) place = absl::StrCat("output_grad ", stage - 1);
    if (operand.use > 0 && operand.tensor < 0) {
      const bool forward = operand.role == ir::Role::Input || operand.role == ir::Role::Output;
      place = absl::StrCat(forward ? "skip " : "skip_grad ", operand.use);
    }
    if (operand.tensor >= 0) {
      place = absl::StrCat(ir::stringifyRole(operand.role).str(), " of ", operand.tensor, " use ", operand.use);
    }
    if (operand.role >= ir::Role::LocalLosses && operand.role <= ir::Role::Norm) {
      place = ir::stringifyRole(operand.role).str();
    }
    // Workspace differs in size from segment to segment, so each size has a buffer.
    if (operand.role == ir::Role::Workspace) absl::StrAppend(&place, " ", operand.bytes);
    auto found = buffers_.find(place);
    if (found == buffers_.end()) found = buffers_.emplace(place, Bytes(operand.bytes, 0)).first;
    return found->second;
  }

  void Run(int index) {
    const StageSegment& s = set_.segments[index];
    std::vector<char*> operands;
    for (const SegmentOperand& operand : s.operands) operands.push_back(Buffer(s.stage, operand).data());
    exec::StepContext context;
    context.seed = 3;
    context.microbatch_sequences = kSequences;
    context.data = &data_;
    RunSegment(*backend_, s.segment, operands, [&](auto&&...) { return context; });
  }

  FixedData data_;
  std::unique_ptr<exec::Backend> backend_;
  SegmentSet set_;
  std::map<std::string, Bytes> buffers_;
};

void CheckGradients(const DifferentiateCase& c, const Variant& variant) {
  SCOPED_TRACE(absl::StrCat(c.name, ", ", variant.stages, " stages, recompute ", variant.recompute, ", ",
                            variant.accumulation, ", seed ", kSeed));
  Model model(c, variant);
  ASSERT_TRUE(model.ok());
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const int32_t tensors = static_cast<int32_t>(c.parameters.size()) + 2;
  for (int32_t t = 0; t < tensors; ++t) {
    for (double& element : model.Tensor(ir::Role::Param, t)) element = uniform(random);
  }
  model.Loss();
  model.Backward();
  for (int32_t t = 0; t < tensors; ++t) {
    absl::Span<double> gradient = model.Tensor(ir::Role::Grad, t);
    absl::Span<double> parameter = model.Tensor(ir::Role::Param, t);
    ASSERT_EQ(gradient.size(), parameter.size()) << "tensor " << t;
    double difference = 0;
    double reference = 0;
    for (size_t i = 0; i < parameter.size(); ++i) {
      const double before = parameter[i];
      parameter[i] = before + kStep;
      const double up = model.Loss();
      parameter[i] = before - kStep;
      const double down = model.Loss();
      parameter[i] = before;
      const double numeric = (up - down) / (2 * kStep);
      difference += (gradient[i] - numeric) * (gradient[i] - numeric);
      reference += numeric * numeric;
    }
    EXPECT_GT(reference, 0) << "tensor " << t << " has no influence: the test would pass with any gradient of zero";
    EXPECT_LE(std::sqrt(difference), kTolerance * std::sqrt(reference)) << "tensor " << t;
  }
}

TEST(Differentiate, AgreesWithFiniteDifferences) {
  for (const DifferentiateCase& c : DifferentiateCases()) CheckGradients(c, {});
}

TEST(Differentiate, AcrossStages) {
  for (const DifferentiateCase& c : DifferentiateCases()) CheckGradients(c, {.stages = 3});
}

TEST(Differentiate, WithRecompute) {
  for (const DifferentiateCase& c : DifferentiateCases()) CheckGradients(c, {.stages = 2, .recompute = "full"});
}

TEST(Differentiate, InTwoHalves) {
  for (const DifferentiateCase& c : DifferentiateCases()) CheckGradients(c, {.stages = 3, .halves = true});
  for (const DifferentiateCase& c : DifferentiateCases())
    CheckGradients(c, {.stages = 2, .recompute = "full", .halves = true});
}

TEST(Differentiate, OverSkipConnections) {
  for (const DifferentiateCase& c : SkipCases()) {
    for (bool halves : {false, true}) {
      for (const char* recompute : {"none", "full"}) {
        Variant variant{.stages = c.layers + 2, .recompute = recompute, .by_layer = true, .halves = halves};
        CheckGradients(c, variant);
      }
    }
  }
}

// If several stages read a value, the gradients that they give it are added in the same order as within one stage.
TEST(Differentiate, SkipConnectionsChangeNoBit) {
  for (const DifferentiateCase& c : SkipCases()) {
    SCOPED_TRACE(c.name);
    Model one(c, {});
    Model many(c, {.stages = c.layers + 2, .by_layer = true});
    ASSERT_TRUE(one.ok() && many.ok());
    EXPECT_TRUE(one.set().skips.empty());
    EXPECT_FALSE(many.set().skips.empty());
    const int32_t tensors = static_cast<int32_t>(c.parameters.size()) + 2;
    for (Model* model : {&one, &many}) {
      std::mt19937 random(kSeed);
      std::uniform_real_distribution<double> uniform(-1, 1);
      for (int32_t t = 0; t < tensors; ++t) {
        for (double& element : model->Tensor(ir::Role::Param, t)) element = uniform(random);
      }
      model->Loss();
      model->Backward();
    }
    EXPECT_EQ(one.Loss(), many.Loss());
    for (int32_t t = 0; t < tensors; ++t) {
      absl::Span<double> a = one.Tensor(ir::Role::Grad, t), b = many.Tensor(ir::Role::Grad, t);
      EXPECT_EQ(std::vector<double>(a.begin(), a.end()), std::vector<double>(b.begin(), b.end())) << "tensor " << t;
    }
  }
}

TEST(Differentiate, SkipConnectionsAreListed) {
  const DifferentiateCase skips = SkipCases()[1];
  Model model(skips, {.stages = 5, .by_layer = true});
  ASSERT_EQ(model.set().skips.size(), 3);
  // The input of layer 1 skips from stage 0 to stages 2 and 3; the output of its gelu skips from stage 1 to stage 3.
  const int edges[][2] = {{0, 2}, {0, 3}, {1, 3}};
  const char* names[] = {"weft.embedding", "weft.embedding", "weft.gelu"};
  for (int i = 0; i < 3; ++i) {
    const SkipTensor& skip = model.set().skips[i];
    EXPECT_EQ(skip.name, names[i]);
    EXPECT_EQ(skip.from_stage, edges[i][0]);
    EXPECT_EQ(skip.to_stage, edges[i][1]);
    EXPECT_EQ(skip.dtype, FP64);
    EXPECT_EQ(skip.shape, (std::vector<int64_t>{6, 4}));
  }
}

TEST(Differentiate, IntoExactAccumulators) {
  for (const DifferentiateCase& c : DifferentiateCases()) CheckGradients(c, {.accumulation = "exact"});
}

// Every differentiable op needs a case, except these, which other tests differentiate in whole models:
// tensor_parallel_test compares ops of sharded graphs with one rank, and unet_segments_test compares ops of images with
// finite differences and PyTorch.
constexpr absl::string_view kElsewhere[] = {
    "weft.add_per_sample",
    "weft.bias_add",
    "weft.concat_columns",
    "weft.conv2d",
    "weft.cross_entropy_combine",
    "weft.cut_gradients",
    "weft.fan_out",
    "weft.group_all_gather",
    "weft.group_all_reduce",
    "weft.group_norm",
    "weft.group_reduce_scatter",
    "weft.norm_apply",
    "weft.scale_shift",
    "weft.squared_error",
    "weft.upsample",
};

TEST(Differentiate, CoversEveryOp) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>();
  std::string all;
  for (const DifferentiateCase& c : DifferentiateCases()) absl::StrAppend(&all, ModelText(c, "in_order"));
  int differentiable = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    if (!name.hasInterface<ir::DifferentiableInterface>()) continue;
    ++differentiable;
    const std::string op = name.getStringRef().str();
    const bool here = all.find(absl::StrCat(" = ", op, " ")) != std::string::npos;
    const bool elsewhere = std::find(std::begin(kElsewhere), std::end(kElsewhere), op) != std::end(kElsewhere);
    EXPECT_NE(here, elsewhere) << op;
  }
  EXPECT_GE(differentiable, 9);
}

}  // namespace
}  // namespace weft
