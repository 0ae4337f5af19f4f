#include "compiler/models/hf_activation.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

constexpr Activation kActivations[] = {
    {.name = "gelu", .kind = "gelu"},
    {.name = "gelu_new", .kind = "gelu", .tanh_approximation = true},
    {.name = "gelu_pytorch_tanh", .kind = "gelu", .tanh_approximation = true},
    {.name = "relu2", .kind = "relu_squared"},
    {.name = "silu", .kind = "silu", .gated_kind = "swiglu"},
    {.name = "swish", .kind = "silu", .gated_kind = "swiglu"},
};

}  // namespace

absl::Span<const Activation> Activations() { return kActivations; }

absl::StatusOr<Activation> ReadActivation(const HfConfig& config, absl::string_view field, absl::string_view absent,
                                          bool gated) {
  WEFT_ASSIGN_OR_RETURN(const std::string name, config.Text(field, absent));
  std::vector<std::string> allowed;
  for (const Activation& activation : kActivations) {
    if (gated && activation.gated_kind == nullptr) continue;
    if (activation.name == name) return activation;
    allowed.push_back(Quoted(activation.name));
  }
  return config.Refuse(field, Quoted(name), absl::StrCat("supported: ", absl::StrJoin(allowed, ", ")));
}

}  // namespace weft
