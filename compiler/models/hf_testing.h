// Configs of Hugging Face in tests: what they become, and why they are refused.
#ifndef WEFT_COMPILER_MODELS_HF_TESTING_H_
#define WEFT_COMPILER_MODELS_HF_TESTING_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_replace.h"
#include "compiler/models/import_hf.h"
#include "gtest/gtest.h"
#include "kernels/graph_row.h"
#include "proto/model_graph.pb.h"

namespace weft {

// The test fails if there is no `from` in it.
inline std::string Replace(const std::string& text, const std::string& from, const std::string& to) {
  std::string changed = absl::StrReplaceAll(text, {{from, to}});
  EXPECT_NE(changed, text) << from;
  return changed;
}

// The graph, which is valid.
inline ModelGraph Import(const std::string& json, const std::string& name = "m") {
  auto graph = ImportHuggingFaceConfig(json, name);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  EXPECT_TRUE(kernels::ValidateModelGraph(*graph).ok()) << kernels::ValidateModelGraph(*graph);
  return *std::move(graph);
}

// Why there is none.
inline std::string Error(const std::string& json) {
  const auto graph = ImportHuggingFaceConfig(json, "m");
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(graph.status().message());
}

// By name; the test fails if there is none.
inline const GraphOp& Op(const ModelGraph& graph, const std::string& name) {
  for (const GraphOp& op : graph.ops()) {
    if (op.name() == name) return op;
  }
  ADD_FAILURE() << "no op " << name;
  return GraphOp::default_instance();
}

// Of all parameters.
inline int64_t Elements(const ModelGraph& graph) {
  int64_t sum = 0;
  for (const GraphParameter& parameter : graph.parameters()) {
    int64_t elements = 1;
    for (const int64_t extent : parameter.shape()) elements *= extent;
    sum += elements;
  }
  return sum;
}

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_HF_TESTING_H_
