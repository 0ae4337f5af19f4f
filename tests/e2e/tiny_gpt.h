// A model of a few thousand parameters (GPT-2 by default), compiled for any small plan, and text to train it on.
#ifndef WEFT_TESTS_E2E_TINY_GPT_H_
#define WEFT_TESTS_E2E_TINY_GPT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/data/data.h"
#include "proto/program.pb.h"

namespace weft {

struct TinyPlan {
  int pipe = 1;
  int data = 1;
  std::string schedule = "1f1b";
  bool recompute = false;
  bool exact = false;
  bool bf16 = false;
  // Iterations of the recipe. The learning rate decays over them.
  int steps = 20;
  int layers = 4;
  // Sequences of the global batch and of a microbatch; tokens of a sequence, at most 32.
  int batch = 8;
  int microbatch = 1;
  int sequence = 32;
  // If set, replaces `data` and `pipe`: the axes of the mesh in order, as in "x2 data2 z2"; pipe may be among them.
  std::string mesh = "";
  bool fp64 = false;
  double dropout = 0.1;
  double clip = 0.5;
  // True if the head shares the embedding's weight; only gpt2 can be untied.
  bool tied = true;
  // Further fields of the plan's schedule and of the plan, as text.
  std::string schedule_fields = "";
  std::string plan_fields = "";
  // If set, replaces `bf16` and `fp64`: the fields of the plan's precision.
  std::string precision = "";
  // If set, replaces `recompute`: the fields of the plan's recompute.
  std::string recompute_fields = "";
  // gpt2, relu2 (gpt2 with squared ReLU), llama (grouped heads, tied head), mistral (a window shorter than the
  // sequence), qwen2 (biases) or bert.
  std::string family = "gpt2";
  // If set, replaces fp32, bf16 or fp64: "fp16", or "fp16 grads" to keep gradients in half precision too.
  std::string half = "";
  // Fields of the recipe, as text.
  std::string optimizer = "adamw {}";
  std::string lr = "peak: 0.01 warmup_steps: 3 decay: 'cosine' min: 0.001";

  std::string Name() const;
};

// Compiles the plan. By default dropout is 0.1, clipping is active, and AdamW has a warm-up and a cosine decay.
absl::StatusOr<Program> CompileTiny(const TinyPlan& plan);

// WriteTinyText writes deterministic text to `path`. OpenTinyText opens the text at `path` for the program.
absl::Status WriteTinyText(const std::string& path);
absl::StatusOr<std::unique_ptr<exec::DataSource>> OpenTinyText(const std::string& path, const Program& program);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_TINY_GPT_H_
