// Reads the config.json that Hugging Face publishes beside a model's weights and writes the model as a list of ops.
//
// Families, by `model_type`: gpt2, llama, mistral, qwen2, bert, unet (hf_FAMILY.cc lists the fields of each; mistral
// and qwen2 are in hf_llama.cc). Every field is honored, known to have no effect on training, or refused by name.
// Parameters get the names and shapes of the published checkpoints, so that their safetensors load:
// "model.layers.0.self_attn.q_proj.weight" [heads * head_dim, d], whose rows are outputs; GPT-2's are inputs.
//
// Layers of the language models: 0 embeddings, 1 to L blocks, L + 1 final norm, head and loss. Dropout keeps the
// config's probabilities (also where they are 0, so that a recipe may override them).
#ifndef WEFT_COMPILER_MODELS_IMPORT_HF_H_
#define WEFT_COMPILER_MODELS_IMPORT_HF_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

// True if `json` looks like a Hugging Face config: an object with a field that only such configs have, for example
// "model_type" or "architectures".
bool IsHuggingFaceConfig(absl::string_view json);

// InvalidArgument names the field, what was given and what is allowed. `name` becomes the graph's name.
absl::StatusOr<ModelGraph> ImportHuggingFaceConfig(absl::string_view json, absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_IMPORT_HF_H_
