// Finds the graph ops for the activations that Hugging Face configs name (hidden_act, activation_function).
#ifndef WEFT_COMPILER_MODELS_HF_ACTIVATION_H_
#define WEFT_COMPILER_MODELS_HF_ACTIVATION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/models/hf_config.h"

namespace weft {

struct Activation {
  const char* name = nullptr;
  // `kind`: the graph op for f(x). `gated_kind`: the graph op for f(gate) * up. Null if there is no such op.
  const char* kind = nullptr;
  const char* gated_kind = nullptr;
  bool tanh_approximation = false;
};

absl::Span<const Activation> Activations();

// Reads the field, which must name an activation that has a `kind`, or a `gated_kind` if `gated`.
absl::StatusOr<Activation> ReadActivation(const HfConfig& config, absl::string_view field, absl::string_view absent,
                                          bool gated = false);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_HF_ACTIVATION_H_
