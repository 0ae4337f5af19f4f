#include "tests/e2e/tiny_gpt.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "planner/compile.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "tests/e2e/tiny_mesh.h"

namespace weft {
namespace {

// Returns the model's config as JSON text up to the number of layers. The caller appends the number.
absl::StatusOr<std::string> Config(const TinyPlan& plan) {
  const std::string& family = plan.family;
  if (!plan.tied && family != "gpt2") return absl::InternalError("only gpt2 is untied here");
  if (family == "gpt2" || family == "relu2") {
    return absl::StrCat(R"({"model_type": "gpt2", "vocab_size": 256, "n_positions": 32, "n_embd": 32, "n_head": 2,)",
                        family == "relu2" ? R"( "activation_function": "relu2",)" : "", R"( "tie_word_embeddings": )",
                        plan.tied ? "true" : "false", R"(, "n_layer": )");
  }
  if (family == "bert") {
    return std::string(
        R"({"model_type": "bert", "vocab_size": 257, "mask_token_id": 256, "max_position_embeddings": 32,)"
        R"( "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": )");
  }
  const std::string llama = absl::StrCat(
      R"({"model_type": ")", family, R"(", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48,)",
      R"( "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,)");
  const char kLayers[] = R"( "num_hidden_layers": )";
  if (family == "llama") {
    return absl::StrCat(llama, R"( "tie_word_embeddings": true, "rope_scaling": {"type": "yarn", "factor": 2.0},)",
                        kLayers);
  }
  if (family == "mistral") return absl::StrCat(llama, R"( "sliding_window": 9,)", kLayers);
  if (family == "qwen2") return absl::StrCat(llama, kLayers);
  return absl::InternalError("no family " + family);
}

std::string MeshOf(const TinyPlan& plan) {
  return AxesOf(plan.mesh.empty() ? absl::StrCat("data", plan.data, " pipe", plan.pipe) : plan.mesh);
}

}  // namespace

std::string TinyPlan::Name() const {
  return absl::StrCat(family, " ", mesh.empty() ? absl::StrCat("pipe ", pipe, " data ", data) : mesh, " ", schedule,
                      schedule_fields.empty() ? "" : " ", schedule_fields, plan_fields.empty() ? "" : " ", plan_fields,
                      " batch ", batch, sequence == 32 ? "" : absl::StrCat(" sequence ", sequence),
                      clip == 0.5 ? "" : absl::StrCat(" clip ", clip), tied ? "" : " untied",
                      recompute ? " recompute" : "", recompute_fields.empty() ? "" : " recompute ", recompute_fields,
                      precision.empty() ? "" : " ", precision, exact ? " exact" : "", bf16 ? " bf16" : "",
                      fp64 ? " fp64" : "", half.empty() ? "" : " ", half, optimizer == "adamw {}" ? "" : " ",
                      optimizer == "adamw {}" ? "" : optimizer);
}

absl::StatusOr<Program> CompileTiny(const TinyPlan& plan) {
  WEFT_ASSIGN_OR_RETURN(const std::string config, Config(plan));
  WEFT_ASSIGN_OR_RETURN(const ModelGraph model,
                        ImportHuggingFaceConfig(absl::StrCat(config, plan.layers, "}"), "tiny"));
  WEFT_ASSIGN_OR_RETURN(
      const Recipe recipe,
      ParseTiny<Recipe>(absl::StrCat("sequence_length: ", plan.sequence, " global_batch_sequences: ", plan.batch,
                                     " microbatch_sequences: ", plan.microbatch, " dropout: ", plan.dropout,
                                     " seed: 1234 clip_norm: ", plan.clip, " steps: ", plan.steps, " lr { ", plan.lr,
                                     " } ", plan.optimizer)));
  WEFT_ASSIGN_OR_RETURN(
      const Plan message,
      ParseTiny<Plan>(absl::StrCat(
          "mesh { ", MeshOf(plan), " } schedule { name: '", plan.schedule, "' ", plan.schedule_fields, " } ",
          plan.plan_fields, " recompute { ",
          !plan.recompute_fields.empty() ? plan.recompute_fields
          : plan.recompute               ? "mode: FULL"
                                         : "mode: NONE",
          " } accumulation: ", plan.exact ? "EXACT" : "IN_ORDER",
          !plan.precision.empty()     ? absl::StrCat(" precision { ", plan.precision, " }")
          : plan.half == "fp16"       ? " precision { compute: FP16 }"
          : plan.half == "fp16 grads" ? " precision { compute: FP16 grads: FP16 }"
          : plan.fp64 ? " precision { compute: FP64 params: FP64 grads: FP64 reduce: FP64 master: FP64 moments: FP64 }"
          : plan.bf16
              ? " precision { compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: FP32 }"
              : " precision { compute: FP32 params: FP32 grads: FP32 reduce: FP32 master: FP32 moments: FP32 }")));
  WEFT_ASSIGN_OR_RETURN(
      const Cluster cluster,
      ParseTiny<Cluster>(
          "name: 'test' nodes: 1 devices_per_node: 16 device { name: 'cpu' memory_bytes: 1000000000 "
          "memory_bytes_per_second: 1e10 peaks { dtype: FP32 flops_per_second: 1e11 } "
          "peaks { dtype: BF16 flops_per_second: 1e11 } peaks { dtype: FP64 flops_per_second: 1e11 } "
          "peaks { dtype: FP16 flops_per_second: 1e11 } peaks { dtype: TF32 flops_per_second: 1e11 } } "
          "intra_node { bytes_per_second: 1e10 latency_seconds: 1e-6 } host { bytes_per_second: 1e10 }"));
  return planner::CompilePlan(model, recipe, message, cluster, {});
}

absl::Status WriteTinyText(const std::string& path) {
  static constexpr const char* kWords[] = {"the ",   "rank ", "sends ", "a ",        "stage ", "and ",
                                           "waits ", "for ",  "its ",   "gradient ", ".\n",    "weft "};
  std::mt19937 random(99);
  std::string text;
  while (text.size() < 20000) text += kWords[random() % std::size(kWords)];
  return WriteFileAtomic(path, text);
}

absl::StatusOr<std::unique_ptr<exec::DataSource>> OpenTinyText(const std::string& path, const Program& program) {
  return exec::OpenData({.path = path,
                         .sequence_length = program.recipe().sequence_length(),
                         .vocabulary = program.vocabulary(),
                         .seed = program.recipe().seed(),
                         .token_type = ""});
}

}  // namespace weft
