// Helpers for tests of Hugging Face configs: import a config, or get the error that refuses it.
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

// `text` with every `from` replaced. The test fails if there is none.
inline std::string Replace(const std::string& text, const std::string& from, const std::string& to) {
  std::string changed = absl::StrReplaceAll(text, {{from, to}});
  EXPECT_NE(changed, text) << from;
  return changed;
}

// Imports a config. The test fails if the config is refused or the graph is not valid.
inline ModelGraph Import(const std::string& json, const std::string& name = "m") {
  auto graph = ImportHuggingFaceConfig(json, name);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  EXPECT_TRUE(kernels::ValidateModelGraph(*graph).ok()) << kernels::ValidateModelGraph(*graph);
  return *std::move(graph);
}

// The error that refuses the config. The test fails if it is not InvalidArgument.
inline std::string Error(const std::string& json) {
  const auto graph = ImportHuggingFaceConfig(json, "m");
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(graph.status().message());
}

// The op of this name; the test fails if there is none.
inline const GraphOp& Op(const ModelGraph& graph, const std::string& name) {
  for (const GraphOp& op : graph.ops()) {
    if (op.name() == name) return op;
  }
  ADD_FAILURE() << "no op " << name;
  return GraphOp::default_instance();
}

// Number of elements of all parameters together.
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
