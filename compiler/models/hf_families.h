// The model families whose config.json weft reads, with one importer each. See import_hf.h.
#ifndef WEFT_COMPILER_MODELS_HF_FAMILIES_H_
#define WEFT_COMPILER_MODELS_HF_FAMILIES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/models/hf_config.h"
#include "proto/model_graph.pb.h"

namespace weft {

absl::StatusOr<ModelGraph> ImportGpt2(const HfConfig& config, absl::string_view name);
absl::StatusOr<ModelGraph> ImportLlama(const HfConfig& config, absl::string_view name);
absl::StatusOr<ModelGraph> ImportMistral(const HfConfig& config, absl::string_view name);
absl::StatusOr<ModelGraph> ImportQwen2(const HfConfig& config, absl::string_view name);
absl::StatusOr<ModelGraph> ImportBert(const HfConfig& config, absl::string_view name);
absl::StatusOr<ModelGraph> ImportUnet(const HfConfig& config, absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_HF_FAMILIES_H_
