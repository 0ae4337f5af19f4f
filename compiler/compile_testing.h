// A model and a cluster that are small enough to compile in milliseconds.
#ifndef WEFT_COMPILER_COMPILE_TESTING_H_
#define WEFT_COMPILER_COMPILE_TESTING_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "tests/parse_text.h"

namespace weft {

// GPT-2 for sequences of up to 16 tokens. `fields` are more fields of its config, each with a comma before it.
inline ModelGraph TinyGpt2(int layers, const std::string& fields = "") {
  auto graph = ImportHuggingFaceConfig(
      absl::StrCat(
          R"({"model_type": "gpt2", "vocab_size": 100, "n_positions": 16, "n_embd": 16, "n_head": 2, "n_layer": )",
          layers, fields, "}"),
      "tiny");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

// A cluster of two nodes of eight devices.
inline Cluster TinyCluster(const std::string& fields = "") {
  return Parse<Cluster>(R"(
    name: "test" nodes: 2 devices_per_node: 8
    device { name: "d" memory_bytes: 1000000000 memory_bytes_per_second: 1e12 reserved_bytes: 1000
             peaks { dtype: FP32 flops_per_second: 1e13 } peaks { dtype: BF16 flops_per_second: 1e14 } }
    intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 }
    inter_node { bytes_per_second: 1e10 latency_seconds: 1e-5 }
    nics_per_node: 1 host { bytes_per_second: 1e10 } host_memory_bytes: 1000000000 )" +
                        fields);
}

}  // namespace weft

#endif  // WEFT_COMPILER_COMPILE_TESTING_H_
