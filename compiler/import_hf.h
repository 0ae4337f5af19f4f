// Reads the config.json that Hugging Face publishes beside a model's weights and writes the model as a list of ops.
//
// Family: GPT-2 (`model_type` "gpt2"). Every field is honoured, known to have no effect on training, or refused by
// name; there is no field that is quietly taken for something else. Parameters get the names and shapes of the
// published checkpoints, so their safetensors load: "transformer.wte.weight" [V, d], and
// "transformer.h.0.attn.c_attn.weight" [d, 3d], whose rows are inputs.
//
// Layers: 0 embeddings, 1 to L blocks, L + 1 final norm, head and loss. Dropout keeps the config's probabilities
// (also where they are 0, so that a recipe may override them).
// Initial values: normal(initializer_range), residual projections divided by sqrt(2 L), biases 0, norms 1.
// Source of the architecture: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", sec. 2.3.
#ifndef WEFT_COMPILER_IMPORT_HF_H_
#define WEFT_COMPILER_IMPORT_HF_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

// Whether `json` looks like a Hugging Face config: an object with "model_type" or "architectures".
bool IsHuggingFaceConfig(absl::string_view json);

// InvalidArgument names the field, what was given and what is allowed. `name` becomes the graph's name.
absl::StatusOr<ModelGraph> ImportHuggingFaceConfig(absl::string_view json, absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_IMPORT_HF_H_
