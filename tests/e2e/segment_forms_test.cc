// All forms of a stage's work give the same bits: a backward whole or in two halves, a forward of one or two
// microbatches, a forward and a backward separately or as a pair. The cpu backend runs segments of a small GPT-2.
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower_segments.h"
#include "compiler/models/import_hf.h"
#include "compiler/segments/pair_segments.h"
#include "compiler/segments/saved_for_input.h"
#include "compiler/segments/segment_set.h"
#include "compiler/segments/widen_segment.h"
#include "executor/interface/backend.h"
#include "gtest/gtest.h"
#include "tests/e2e/segment_run.h"

namespace weft {
namespace {

constexpr unsigned kSeed = 23;
constexpr int64_t kSequence = 16;
constexpr int64_t kSequences = 2;
constexpr int kMicrobatches = 4;

constexpr char kConfig[] = R"({"model_type": "gpt2", "vocab_size": 61, "n_positions": 16, "n_embd": 8, "n_layer": 2,
    "n_head": 2, "resid_pdrop": 0.2, "embd_pdrop": 0.1, "attn_pdrop": 0.2})";

class FixedData : public exec::DataSource {
 public:
  int64_t windows() const override { return 64; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((sample * 17 + i * 7 + 1) % 61);
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>((sample * 5 + i * 11 + 3) % 61);
    return absl::OkStatus();
  }
};

struct Variant {
  int stages = 1;
  Recompute::Mode recompute = Recompute::NONE;
  AccumulationMode accumulation = IN_ORDER;
  DType compute = FP32;
  // Adds the embedding again before the final norm: a skip connection from the first stage to the last.
  bool skip = false;
  std::string Name() const {
    return absl::StrCat(stages, " stages, recompute ", recompute, ", accumulation ", accumulation, ", dtype ", compute,
                        skip ? ", skip" : "", ", seed ", kSeed);
  }
};

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (int stages : {1, 2, 4}) {
    for (Recompute::Mode recompute : {Recompute::NONE, Recompute::FULL}) {
      for (AccumulationMode accumulation : {IN_ORDER, EXACT}) {
        for (DType compute : {FP32, BF16}) variants.push_back({stages, recompute, accumulation, compute});
      }
    }
  }
  variants.push_back({.stages = 4, .skip = true});
  variants.push_back({.stages = 4, .recompute = Recompute::FULL, .skip = true});
  return variants;
}

void AddSkip(ModelGraph* graph) {
  int norm = 0;
  std::string embedded;
  for (int i = 0; i < graph->ops_size(); ++i) {
    if (graph->ops(i).layer() == 0) embedded = graph->ops(i).outputs(0);
    if (graph->ops(i).kind() == "layer_norm") norm = i;
  }
  GraphOp add;
  add.set_name("again");
  add.set_kind("add");
  add.set_layer(graph->ops(norm).layer());
  add.add_inputs(graph->ops(norm).inputs(0));
  add.add_inputs(embedded);
  add.add_outputs("again");
  graph->mutable_ops(norm)->set_inputs(0, "again");
  *graph->add_ops() = add;
  for (int k = graph->ops_size() - 1; k > norm; --k) graph->mutable_ops()->SwapElements(k, k - 1);
}

SegmentSet Compile(const Variant& variant) {
  auto graph = ImportHuggingFaceConfig(kConfig, "tiny");
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (variant.skip) AddSkip(&*graph);
  Recipe recipe;
  recipe.set_sequence_length(kSequence);
  recipe.set_global_batch_sequences(kSequences * kMicrobatches);
  recipe.set_microbatch_sequences(kSequences);
  recipe.mutable_adamw();
  SegmentOptions options;
  options.stages = variant.stages;
  options.split_backward = true;
  options.accumulation = variant.accumulation;
  options.recompute.set_mode(variant.recompute);
  Precision& precision = options.precision;
  for (auto set : {&Precision::set_grads, &Precision::set_reduce, &Precision::set_master, &Precision::set_moments}) {
    (precision.*set)(FP32);
  }
  precision.set_compute(variant.compute);
  precision.set_params(variant.compute);
  auto set = CompileSegments(*graph, recipe, options);
  EXPECT_TRUE(set.ok()) << set.status();
  if (!set.ok()) return SegmentSet();
  EXPECT_EQ(set->skips.size(), variant.skip ? 1 : 0);
  return *std::move(set);
}

// The buffers of one rank that holds all stages.
class Machine {
 public:
  explicit Machine(DType params) : params_(params), backend_(exec::MakeCpuBackend(1)) {}

  // Runs a segment of one microbatch, or a wide segment whose first microbatch is `microbatch`.
  void Run(const StageSegment& s, int microbatch) { Run(s, microbatch, microbatch); }

  // Runs a segment. In a pair, `microbatch` is the microbatch of the forward and `backward` the one of the backward.
  void Run(const StageSegment& s, int microbatch, int backward) {
    std::vector<char*> operands;
    for (size_t i = 0; i < s.operands.size(); ++i) {
      ASSERT_EQ(s.operands[i].bytes, s.segment.operands(static_cast<int>(i)).bytes());
      operands.push_back(Buffer(s, s.operands[i], s.operands[i].half == 0 ? microbatch : backward).data());
    }
    // Step contexts as docs/kernels.md defines them.
    RunSegment(*backend_, s.segment, operands, [&](const Step& step, absl::Span<const exec::TensorView> outputs) {
      exec::StepContext context;
      context.seed = 5;
      context.global_microbatch =
          (step.attributes().of_backward() ? backward : microbatch) + step.attributes().microbatch_offset();
      context.first_sample = context.global_microbatch * kSequences;
      context.microbatch_sequences = s.width == 1 ? kSequences : outputs[0].shape[0] / kSequence;
      context.data = &data_;
      return context;
    });
  }

  // The results of training: gradients and losses.
  std::map<std::string, std::string> Result() {
    std::map<std::string, std::string> result;
    for (auto& [name, bytes] : buffers_) {
      if (name.rfind("grad", 0) == 0 || name.rfind("local_losses", 0) == 0) {
        result[name] = std::string(bytes.data(), bytes.size);
      }
    }
    return result;
  }

 private:
  Bytes& Buffer(const StageSegment& s, const SegmentOperand& operand, int microbatch) {
    const int stage = s.kind == ir::SegmentKind::ForwardBackward && operand.half == 1 ? s.backward_stage : s.stage;
    std::string tag = absl::StrCat("m", microbatch);
    if (s.width == 2) tag = absl::StrCat("w", microbatch);
    const bool shared = operand.role == ir::Role::Input || operand.role == ir::Role::Saved;
    if (s.part >= 0 && shared) tag = absl::StrCat("w", microbatch - s.part);
    std::string name = absl::StrCat(ir::stringifyRole(operand.role).str(), " ", stage, " ", tag);
    bool random = false, zero = false;
    switch (operand.role) {
      case ir::Role::Input:
        name = absl::StrCat("output ", stage - 1, " ", tag);
        break;
      case ir::Role::InputGrad:
        name = absl::StrCat("output_grad ", stage - 1, " ", tag);
        break;
      case ir::Role::Param:
        random = true;
        name = absl::StrCat("param ", operand.tensor);
        break;
      case ir::Role::Grad:
      case ir::Role::GradAccumulator:
        zero = true;
        name = absl::StrCat(ir::stringifyRole(operand.role).str(), " ", operand.tensor, " use ", operand.use);
        break;
      case ir::Role::LocalLosses:
        zero = true;
        name = "local_losses";
        break;
      case ir::Role::Workspace:
        absl::StrAppend(&name, " ", s.segment.name(), " ", operand.half);
        break;
      default:
        break;
    }
    if (operand.role == ir::Role::Saved && operand.use == kSavedForInput) {
      name = absl::StrCat("saved_for_input ", stage, " ", tag);
    } else if (operand.tensor < 0 && operand.use > 0) {
      const bool forward = operand.role == ir::Role::Input || operand.role == ir::Role::Output;
      name = absl::StrCat(forward ? "skip " : "skip_grad ", operand.use, " ", tag);
    }
    auto found = buffers_.find(name);
    if (found != buffers_.end()) {
      EXPECT_EQ(found->second.size, operand.bytes) << name;
      return found->second;
    }
    Bytes& bytes = buffers_.emplace(name, Bytes(operand.bytes, zero ? 0 : 0x7f)).first->second;
    if (random) {
      std::mt19937 generator(kSeed + operand.tensor);
      std::uniform_real_distribution<float> uniform(-0.5, 0.5);
      for (int64_t i = 0; i < operand.bytes / (params_ == BF16 ? 2 : 4); ++i) {
        const float element = uniform(generator);
        if (params_ == BF16) {
          std::memcpy(bytes.data() + 2 * i, reinterpret_cast<const char*>(&element) + 2, 2);
        } else {
          std::memcpy(bytes.data() + 4 * i, &element, 4);
        }
      }
    }
    return bytes;
  }

  DType params_;
  FixedData data_;
  std::unique_ptr<exec::Backend> backend_;
  std::map<std::string, Bytes> buffers_;
};

using Result = std::map<std::string, std::string>;

void ExpectSame(const Result& a, const Result& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, bytes] : a) {
    auto other = b.find(name);
    ASSERT_NE(other, b.end()) << name;
    EXPECT_TRUE(bytes == other->second) << name << " differs";
    EXPECT_NE(bytes.find_first_not_of('\0'), std::string::npos) << name << " is zero: any form would pass";
  }
}

// Runs all forwards, then all backwards, in order of microbatches.
Result RunWhole(const SegmentSet& set, DType params) {
  Machine machine(params);
  const int stages = static_cast<int>(set.stages.size());
  for (int m = 0; m < kMicrobatches; ++m) {
    for (int s = 0; s < stages; ++s) machine.Run(set.segments[set.stages[s].forward], m);
  }
  for (int m = 0; m < kMicrobatches; ++m) {
    for (int s = stages; s-- > 0;) machine.Run(set.segments[set.stages[s].backward], m);
  }
  return machine.Result();
}

TEST(SegmentForms, HalvesOfBackwardAreTheWhole) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.Name());
    SegmentSet set = Compile(variant);
    ASSERT_EQ(static_cast<int>(set.stages.size()), variant.stages);
    Machine machine(variant.compute);
    for (int m = 0; m < kMicrobatches; ++m) {
      for (const StageIndex& stage : set.stages) machine.Run(set.segments[stage.forward], m);
    }
    // Compute weight gradients as late as possible.
    for (int m = 0; m < kMicrobatches; ++m) {
      for (int s = variant.stages; s-- > 0;) machine.Run(set.segments[set.stages[s].backward_input], m);
    }
    for (int m = 0; m < kMicrobatches; ++m) {
      for (const StageIndex& stage : set.stages) machine.Run(set.segments[stage.backward_weight], m);
    }
    ExpectSame(RunWhole(set, variant.compute), machine.Result());
  }
}

TEST(SegmentForms, WideForwardIsTwo) {
  for (const Variant& variant : Variants()) {
    for (bool halves : {false, true}) {
      SCOPED_TRACE(absl::StrCat(variant.Name(), halves ? ", halves" : ""));
      SegmentSet set = Compile(variant);
      ASSERT_EQ(static_cast<int>(set.stages.size()), variant.stages);
      Machine machine(variant.compute);
      for (int m = 0; m < kMicrobatches; m += 2) {
        for (const StageIndex& stage : set.stages) {
          auto wide = WidenForward(set.segments[stage.forward]);
          ASSERT_TRUE(wide.ok()) << wide.status();
          machine.Run(*wide, m);
        }
      }
      for (int m = 0; m < kMicrobatches; ++m) {
        for (int s = variant.stages; s-- > 0;) {
          const StageIndex& stage = set.stages[s];
          std::vector<int> backwards = {stage.backward};
          if (halves) backwards = {stage.backward_input, stage.backward_weight};
          for (int backward : backwards) {
            auto part = BackwardOfWide(set.segments[stage.forward], set.segments[backward], m % 2);
            ASSERT_TRUE(part.ok()) << part.status();
            machine.Run(*part, m);
          }
        }
      }
      ExpectSame(RunWhole(set, variant.compute), machine.Result());
    }
  }
}

// Every microbatch's backward runs with the next microbatch's forward, of the same stage and of another stage.
TEST(SegmentForms, PairIsForwardAndBackward) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.Name());
    SegmentSet set = Compile(variant);
    ASSERT_EQ(static_cast<int>(set.stages.size()), variant.stages);
    Machine machine(variant.compute);
    for (const StageIndex& stage : set.stages) machine.Run(set.segments[stage.forward], 0);
    for (int m = 0; m < kMicrobatches; ++m) {
      for (int i = 0; i < variant.stages; ++i) {
        const StageSegment& backward = set.segments[set.stages[variant.stages - 1 - i].backward];
        if (m + 1 == kMicrobatches) {
          machine.Run(backward, m);
          continue;
        }
        auto pair = MergeSegments(set.segments[set.stages[i].forward], backward);
        ASSERT_TRUE(pair.ok()) << pair.status();
        EXPECT_EQ(pair->backward_stage, backward.stage);
        machine.Run(*pair, m + 1, m);
      }
    }
    ExpectSame(RunWhole(set, variant.compute), machine.Result());
  }
}

}  // namespace
}  // namespace weft
