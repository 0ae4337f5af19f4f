// Finds a model by catalog name or file: a Hugging Face config.json, or the folder that it is in, or a ModelGraph as
// text proto, JSON or binary.
#ifndef WEFT_COMPILER_MODELS_LOAD_MODEL_H_
#define WEFT_COMPILER_MODELS_LOAD_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

// Parses a model of any of these formats. The content decides which format it is. Every error begins with `source`.
// `name` becomes the model's name if the file does not state one.
absl::StatusOr<ModelGraph> ParseModel(absl::string_view bytes, absl::string_view source, absl::string_view name);

// A name without '/' that is in the catalog is loaded from the catalog; anything else is a path. Returns a validated
// graph.
absl::StatusOr<ModelGraph> LoadModel(const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_LOAD_MODEL_H_
