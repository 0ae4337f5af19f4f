// Finds a model by catalog name or file: a Hugging Face config.json, or the folder that it is in, or a ModelGraph as
// text proto, JSON or binary.
#ifndef WEFT_COMPILER_MODELS_LOAD_MODEL_H_
#define WEFT_COMPILER_MODELS_LOAD_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

// `bytes` told apart by content; `source` begins every error, `name` names a model whose file does not.
absl::StatusOr<ModelGraph> ParseModel(absl::string_view bytes, absl::string_view source, absl::string_view name);

// A name without '/' that the catalog has is taken from there, anything else is a path. The graph has been validated.
absl::StatusOr<ModelGraph> LoadModel(const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_LOAD_MODEL_H_
