// A small GPT-2 for tests of segments.
#ifndef WEFT_COMPILER_SEGMENTS_TESTING_H_
#define WEFT_COMPILER_SEGMENTS_TESTING_H_

#include <set>
#include <string>

#include "compiler/lower_segments.h"
#include "compiler/models/import_hf.h"
#include "compiler/segments/segment_set.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft {

inline constexpr char kConfig[] =
    R"({"model_type": "gpt2", "vocab_size": 300, "n_positions": 16, "n_embd": 8, "n_layer": 4,
    "n_head": 2, "resid_pdrop": 0.1, "embd_pdrop": 0.0, "attn_pdrop": 0.1})";

inline ModelGraph Graph() {
  auto graph = ImportHuggingFaceConfig(kConfig, "tiny");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

inline Recipe SmallRecipe() {
  Recipe recipe;
  recipe.set_sequence_length(16);
  recipe.set_global_batch_sequences(8);
  recipe.set_microbatch_sequences(2);
  recipe.mutable_adamw();
  return recipe;
}

inline SegmentOptions Options(int32_t stages) {
  SegmentOptions options;
  options.stages = stages;
  Precision& precision = options.precision;
  for (auto set : {&Precision::set_compute, &Precision::set_params, &Precision::set_grads, &Precision::set_reduce,
                   &Precision::set_master, &Precision::set_moments}) {
    (precision.*set)(FP32);
  }
  return options;
}

inline SegmentSet Compile(const Recipe& recipe, const SegmentOptions& options) {
  auto set = CompileSegments(Graph(), recipe, options);
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *std::move(set) : SegmentSet();
}

inline std::string Error(const ModelGraph& graph, const Recipe& recipe, const SegmentOptions& options) {
  auto set = CompileSegments(graph, recipe, options);
  return set.ok() ? "no error" : std::string(set.status().message().data(), set.status().message().size());
}

inline int CountKernels(const SegmentSet& set, Kernel kernel, ir::SegmentKind kind) {
  int count = 0;
  for (const StageSegment& segment : set.segments) {
    if (segment.kind != kind) continue;
    for (const Step& step : segment.segment.steps()) count += step.kernel() == kernel;
  }
  return count;
}

// Checks what the verifier will require of every segment: values lie inside their operands and are aligned, and steps
// use existing values.
inline void ExpectSane(const SegmentSet& set) {
  for (const StageSegment& stage : set.segments) {
    SCOPED_TRACE(stage.segment.name());
    const Segment& segment = stage.segment;
    ASSERT_EQ(segment.operands_size(), static_cast<int>(stage.operands.size()));
    std::set<std::string> names;
    for (int i = 0; i < segment.operands_size(); ++i) {
      EXPECT_TRUE(names.insert(segment.operands(i).name()).second) << segment.operands(i).name();
      EXPECT_EQ(segment.operands(i).bytes(), stage.operands[i].bytes);
      EXPECT_EQ(segment.operands(i).access(), stage.operands[i].access);
      EXPECT_NE(stage.operands[i].access, ACCESS_UNSPECIFIED);
    }
    for (const Value& value : segment.values()) {
      EXPECT_EQ(value.offset() % 64, 0);
      int64_t bytes = *ElementCount(value.shape()) * DTypeBytes(value.dtype());
      EXPECT_LE(value.offset() + bytes, segment.operands(value.operand()).bytes()) << value.name();
    }
    for (const Step& step : segment.steps()) {
      EXPECT_NE(step.kernel(), KERNEL_UNSPECIFIED);
      EXPECT_NE(step.name(), "");
      EXPECT_GT(step.work().bytes(), 0) << step.name();
    }
  }
}

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_TESTING_H_
