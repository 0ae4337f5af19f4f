#include "compiler/compile.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import_hf.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/mesh.h"
#include "proto/program_file.h"
#include "proto/verify/verify.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

using testing::HasSubstr;

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

ModelGraph Model(int layers = 8, const std::string& fields = "") {
  auto graph = ImportHuggingFaceConfig(
      absl::StrCat(
          R"({"model_type": "gpt2", "vocab_size": 100, "n_positions": 16, "n_embd": 16, "n_head": 2, "n_layer": )",
          layers, fields, "}"),
      "tiny");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

Recipe TinyRecipe(const std::string& fields = "") {
  return Parse<Recipe>("sequence_length: 16 global_batch_sequences: 16 microbatch_sequences: 1 dropout: 0.1 " + fields);
}

Cluster TinyCluster(const std::string& fields = "") {
  return Parse<Cluster>(R"(
    name: "test" nodes: 2 devices_per_node: 8
    device { name: "d" memory_bytes: 1000000000 memory_bytes_per_second: 1e12 reserved_bytes: 1000
             peaks { dtype: FP32 flops_per_second: 1e13 } peaks { dtype: BF16 flops_per_second: 1e14 } }
    intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 } inter_node { bytes_per_second: 1e10 latency_seconds: 1e-5 }
    nics_per_node: 1 host { bytes_per_second: 1e10 } host_memory_bytes: 1000000000 )" +
                        fields);
}

struct Case {
  int pipe = 1;
  int data = 1;
  std::string schedule = "1f1b";
  std::string recompute = "NONE";
  std::string accumulation = "IN_ORDER";
  std::string clip = "1";

  std::string Name() const {
    return absl::StrJoin(std::make_tuple(pipe, data, schedule, recompute, accumulation, clip), " ");
  }
  Plan MakePlan(const std::string& fields = "") const {
    return Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", data, " } axes { name: 'pipe' size: ", pipe,
                                    " } } schedule { name: '", schedule, "' } recompute { mode: ", recompute,
                                    " } accumulation: ", accumulation, " ", fields));
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int pipe : {1, 2, 4, 8}) {
    for (int data : {1, 2}) {
      for (const char* schedule : {"gpipe", "1f1b"}) {
        for (const char* recompute : {"NONE", "FULL"}) {
          for (const char* accumulation : {"IN_ORDER", "EXACT"}) {
            for (const char* clip : {"0", "1"}) cases.push_back({pipe, data, schedule, recompute, accumulation, clip});
          }
        }
      }
    }
  }
  return cases;
}

absl::StatusOr<Program> CompileCase(const Case& c, const ModelGraph& model, const std::string& plan_fields = "") {
  return Compile(model, TinyRecipe("clip_norm: " + c.clip), c.MakePlan(plan_fields), TinyCluster(), {});
}

TEST(CompileTest, EveryPlanGivesAProvenProgram) {
  const ModelGraph model = Model(8);
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.Name());
    auto program = CompileCase(c, model);
    ASSERT_TRUE(program.ok()) << program.status();
    for (const Finding& finding : FindViolations(*program)) ADD_FAILURE() << finding.rule << ": " << finding.message;
    EXPECT_EQ(program->stages(), c.pipe);
    EXPECT_EQ(program->microbatches(), 16 / c.data);
    EXPECT_EQ(program->templates_size(), c.pipe);
    EXPECT_TRUE(program->has_evaluation());
  }
}

}  // namespace
}  // namespace weft
