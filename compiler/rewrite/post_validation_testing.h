// Makes post-validated programs of a small GPT-2.
#ifndef WEFT_COMPILER_REWRITE_POST_VALIDATION_TESTING_H_
#define WEFT_COMPILER_REWRITE_POST_VALIDATION_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "planner/compile.h"

namespace weft::post_validation {

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

struct Case {
  std::string schedule = "zb-h2";
  int pipe = 4;
  int microbatches = 16;
  double clip = 1;
  bool post_validation = true;
  std::string schedule_fields = "";
  int layers = 8;
  bool evaluation = false;
  int data = 1;
  std::string plan_fields = "";
  int64_t memory = 1000000000;

  std::string Name() const { return absl::StrCat(schedule, " pipe ", pipe, " clip ", clip, " ", schedule_fields); }
};

inline Cluster TestCluster(int64_t memory = 1000000000) {
  Cluster cluster = Parse<Cluster>(R"(
    name: "test" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes_per_second: 1e12 reserved_bytes: 1000
             peaks { dtype: FP32 flops_per_second: 1e13 } peaks { dtype: BF16 flops_per_second: 1e13 }
             peaks { dtype: FP16 flops_per_second: 1e13 } }
    intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 } )");
  cluster.mutable_device()->set_memory_bytes(memory);
  return cluster;
}

// The head is not tied to the embedding, because the sum of tied gradients would be a barrier too.
inline absl::StatusOr<Program> CompileCase(const Case& c, std::vector<std::string>* notes = nullptr) {
  const auto model = ImportHuggingFaceConfig(
      absl::StrCat(R"({"model_type": "gpt2", "vocab_size": 100, "n_positions": 16, "n_embd": 16, "n_head": 2,
                       "tie_word_embeddings": false, "n_layer": )",
                   c.layers, "}"),
      "tiny");
  if (!model.ok()) return model.status();
  planner::CompileOptions options;
  options.evaluation = c.evaluation;
  options.notes = notes;
  return planner::CompilePlan(
      *model,
      Parse<Recipe>(absl::StrCat("sequence_length: 16 steps: 4 microbatch_sequences: 1 clip_norm: ", c.clip,
                                 " global_batch_sequences: ", c.microbatches)),
      Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", c.data, " } axes { name: 'pipe' size: ", c.pipe,
                               " } } ", c.plan_fields, " schedule { name: '", c.schedule, "' ", c.schedule_fields,
                               " } post_validation: ", c.post_validation ? "true" : "false")),
      TestCluster(c.memory), options);
}

inline Program CompileOrDie(const Case& c) {
  const absl::StatusOr<Program> program = CompileCase(c);
  EXPECT_TRUE(program.ok()) << c.Name() << ": " << program.status();
  return program.ok() ? *program : Program();
}

// Exchanges two adjacent actions of the body. Ids stay in order.
inline void Exchange(Template* t, int first) {
  const int a = t->body(first).id(), b = t->body(first + 1).id();
  t->mutable_body()->SwapElements(first, first + 1);
  t->mutable_body(first)->set_id(a);
  t->mutable_body(first + 1)->set_id(b);
  for (auto* list : {t->mutable_body(), t->mutable_epilogue()}) {
    for (Action& action : *list) {
      for (Dependency& dep : *action.mutable_deps()) {
        if (dep.action() == a || dep.action() == b) dep.set_action(a + b - dep.action());
      }
    }
  }
}

// Moves an action of the body to an earlier place.
inline void MoveUp(Template* t, int from, int to) {
  for (; from > to; --from) Exchange(t, from - 1);
}

}  // namespace weft::post_validation

#endif  // WEFT_COMPILER_REWRITE_POST_VALIDATION_TESTING_H_
