// Names of tensors in weight files that Hugging Face publishes, and how they relate to the names that a program gives
// its parameters.
#ifndef WEFT_EXECUTOR_STATE_WEIGHT_NAMES_H_
#define WEFT_EXECUTOR_STATE_WEIGHT_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace weft::exec {

// Returns the name in one form for all files of a model. Removes the prefix of the model without its head
// ("transformer.", "model.", "bert."), and uses today's names of a norm's parameters, which BERT's oldest files call
// gamma and beta.
std::string CanonicalWeightName(absl::string_view name);

// True if a file's tensor of this canonical name is no parameter of a language model: masks and frequencies that old
// files hold, and heads that a language model does not have (BERT's pooler and next-sentence head).
bool IsNoParameter(absl::string_view canonical);

// Returns the canonical names of the tensors to which a model may tie this tensor. A model that does so has one of them
// and uses it instead of this tensor. Empty if no model ties this tensor.
std::vector<std::string> TiedTo(absl::string_view canonical);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_STATE_WEIGHT_NAMES_H_
