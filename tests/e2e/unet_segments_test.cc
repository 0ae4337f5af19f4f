// The cpu backend runs the segments of a U-Net one after the other, without an executor. Their gradients equal
// PyTorch's (tests/golden), and they are the same bits for every cut, recomputation, and whole or halved backwards.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower_segments.h"
#include "compiler/models/import_hf.h"
#include "compiler/segments/segment_set.h"
#include "executor/data/data.h"
#include "executor/interface/backend.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "tests/e2e/segment_run.h"
#include "tests/golden/golden.h"

namespace weft {
namespace {

constexpr char kFolder[] = "tests/golden/";
constexpr int64_t kBatch = 4;

struct Variant {
  int stages = 1;
  Recompute::Mode recompute = Recompute::NONE;
  bool halves = false;
  DType dtype = FP64;
  int64_t microbatch = kBatch;

  std::string Name() const {
    return absl::StrCat(stages, " stages, recompute ", recompute, halves ? ", halves" : "", ", dtype ", dtype,
                        ", microbatch ", microbatch);
  }
};

// The buffers of one rank that holds all stages.
class Machine {
 public:
  Machine(const SegmentSet& set, const Golden& golden, const exec::DataSource* data, const Variant& variant)
      : set_(set), golden_(golden), data_(data), variant_(variant), backend_(exec::MakeCpuBackend(1)) {}

  void Train() {
    const int stages = static_cast<int>(set_.stages.size());
    for (int m = 0; m < kBatch / variant_.microbatch; ++m) {
      for (int s = 0; s < stages; ++s) Run(set_.segments[set_.stages[s].forward], m);
      for (int s = stages; s-- > 0;) {
        if (!variant_.halves) {
          Run(set_.segments[set_.stages[s].backward], m);
          continue;
        }
        Run(set_.segments[set_.stages[s].backward_input], m);
        Run(set_.segments[set_.stages[s].backward_weight], m);
      }
    }
  }

  // Gradients by tensor, and the losses.
  std::map<std::string, std::string> Result() {
    std::map<std::string, std::string> result;
    for (auto& [name, bytes] : buffers_) {
      if (name.rfind("grad ", 0) == 0 || name == "local_losses") {
        result[name] = std::string(bytes.data(), static_cast<size_t>(bytes.size));
      }
    }
    return result;
  }

 private:
  void Run(const StageSegment& s, int microbatch) {
    std::vector<char*> operands;
    for (const SegmentOperand& operand : s.operands) operands.push_back(Buffer(s, operand, microbatch).data());
    exec::StepContext context;
    context.seed = static_cast<uint64_t>(golden_.numbers.at("seed"));
    context.global_microbatch = microbatch;
    context.first_sample = microbatch * variant_.microbatch;
    context.microbatch_sequences = variant_.microbatch;
    context.data = data_;
    RunSegment(*backend_, s.segment, operands, [&](auto&&...) { return context; });
  }

  Bytes& Buffer(const StageSegment& s, const SegmentOperand& operand, int microbatch) {
    std::string name = absl::StrCat(ir::stringifyRole(operand.role).str(), " ", s.stage, " m", microbatch);
    bool zero = false;
    const std::vector<double>* content = nullptr;
    switch (operand.role) {
      // An output and the inputs that read it are one buffer, named after the stage that writes it.
      case ir::Role::Output:
        name = absl::StrCat("cut ", operand.use > 0 ? 0 : s.stage, " m", microbatch);
        break;
      case ir::Role::Input:
        name = absl::StrCat("cut ", operand.use > 0 ? 0 : s.stage - 1, " m", microbatch);
        break;
      case ir::Role::OutputGrad:
        name = absl::StrCat("cut grad ", operand.use > 0 ? 0 : s.stage, " m", microbatch);
        break;
      case ir::Role::InputGrad:
        name = absl::StrCat("cut grad ", operand.use > 0 ? 0 : s.stage - 1, " m", microbatch);
        break;
      case ir::Role::Param:
        name = absl::StrCat("param ", operand.tensor);
        content = &golden_.initial.at(set_.tensors[operand.tensor].name());
        break;
      case ir::Role::Grad:
        name = absl::StrCat("grad ", set_.tensors[operand.tensor].name());
        zero = true;
        break;
      case ir::Role::LocalLosses:
        name = "local_losses";
        zero = true;
        break;
      case ir::Role::Workspace:
        absl::StrAppend(&name, " ", s.segment.name());
        break;
      default:
        break;
    }
    if (operand.tensor < 0 && operand.use > 0) absl::StrAppend(&name, " skip ", operand.use);
    const auto found = buffers_.find(name);
    if (found != buffers_.end()) {
      EXPECT_EQ(found->second.size, operand.bytes) << name;
      return found->second;
    }
    Bytes& bytes = buffers_.emplace(name, Bytes(operand.bytes, zero ? 0 : 0x7f)).first->second;
    for (size_t i = 0; content != nullptr && i < content->size(); ++i) {
      const auto single = static_cast<float>((*content)[i]);
      if (variant_.dtype == FP64) std::memcpy(bytes.data() + 8 * i, &(*content)[i], 8);
      if (variant_.dtype == FP32) std::memcpy(bytes.data() + 4 * i, &single, 4);
    }
    return bytes;
  }

  const SegmentSet& set_;
  const Golden& golden_;
  const exec::DataSource* data_;
  const Variant variant_;
  std::unique_ptr<exec::Backend> backend_;
  std::map<std::string, Bytes> buffers_;
};

class UnetSegmentsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = absl::StrCat(kFolder, GetParam());
    const auto golden = LoadGolden(folder);
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = *golden;
    const auto config = ReadFile(folder + "/config.json");
    ASSERT_TRUE(config.ok()) << config.status();
    const auto graph = ImportHuggingFaceConfig(*config, "unet");
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *graph;
    auto data = exec::OpenData({.path = folder + "/images.img",
                                .sequence_length = 64,
                                .seed = static_cast<uint64_t>(golden_.numbers.at("seed")),
                                .token_type = "",
                                .image_size = 8,
                                .image_channels = 3});
    ASSERT_TRUE(data.ok()) << data.status();
    data_ = *std::move(data);
  }

  std::map<std::string, std::string> Train(const Variant& variant) {
    Recipe recipe;
    recipe.set_sequence_length(64);
    recipe.set_global_batch_sequences(kBatch);
    recipe.set_microbatch_sequences(variant.microbatch);
    recipe.mutable_adamw();
    SegmentOptions options;
    options.stages = variant.stages;
    options.split_backward = variant.halves;
    options.whole_backward = !variant.halves;
    options.recompute.set_mode(variant.recompute);
    for (auto set : {&Precision::set_compute, &Precision::set_params, &Precision::set_grads, &Precision::set_reduce,
                     &Precision::set_master, &Precision::set_moments}) {
      (options.precision.*set)(variant.dtype);
    }
    auto set = CompileSegments(graph_, recipe, options);
    EXPECT_TRUE(set.ok()) << set.status();
    if (!set.ok()) return {};
    EXPECT_EQ(static_cast<int>(set->stages.size()), variant.stages);
    // Skip connections cross every cut between stages, even if there are only two stages.
    if (variant.stages > 1) {
      EXPECT_FALSE(set->skips.empty());
    }
    Machine machine(*set, golden_, data_.get(), variant);
    machine.Train();
    return machine.Result();
  }

  Golden golden_;
  ModelGraph graph_;
  std::unique_ptr<exec::DataSource> data_;
};

TEST_P(UnetSegmentsTest, GradientsArePyTorchs) {
  for (const Variant& variant : {Variant{}, Variant{.stages = 3, .microbatch = 1}}) {
    SCOPED_TRACE(variant.Name());
    const std::map<std::string, std::string> result = Train(variant);
    double loss = 0;
    for (size_t i = 0; i < result.at("local_losses").size() / 8; ++i) {
      double part;
      std::memcpy(&part, result.at("local_losses").data() + 8 * i, 8);
      loss += part;
    }
    EXPECT_NEAR(loss, golden_.numbers.at("loss_fp64"), 1e-12);
    EXPECT_EQ(result.size(), golden_.gradients.size() + 1);
    for (const auto& [name, expected] : golden_.gradients) {
      const auto found = result.find("grad " + name);
      ASSERT_NE(found, result.end()) << name;
      std::vector<double> gradient(found->second.size() / 8);
      std::memcpy(gradient.data(), found->second.data(), found->second.size());
      EXPECT_LE(RelativeDistance(name, gradient, expected, golden_.zero_gradients), 1e-10) << name;
    }
  }
}

TEST_P(UnetSegmentsTest, CutsRecomputeAndHalvesAreTheSameBits) {
  const auto expected = Train({.dtype = FP32, .microbatch = 2});
  const Variant variants[] = {
      {.stages = 2, .dtype = FP32, .microbatch = 2},
      {.stages = 3, .recompute = Recompute::FULL, .dtype = FP32, .microbatch = 2},
      {.stages = 6, .halves = true, .dtype = FP32, .microbatch = 2},
      {.stages = 12, .recompute = Recompute::FULL, .halves = true, .dtype = FP32, .microbatch = 2},
  };
  for (const Variant& variant : variants) {
    SCOPED_TRACE(variant.Name());
    const auto result = Train(variant);
    ASSERT_EQ(result.size(), expected.size());
    for (const auto& [name, bytes] : expected) EXPECT_TRUE(bytes == result.at(name)) << name << " differs";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, UnetSegmentsTest, testing::Values("unet_tiny", "unet_scale_shift"));

}  // namespace
}  // namespace weft
