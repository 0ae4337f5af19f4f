// Finds the weight decay of each tensor of a model, by the recipe's patterns or, if none matches, by the default rule.
#ifndef WEFT_COMPILER_INPUTS_WEIGHT_DECAY_H_
#define WEFT_COMPILER_INPUTS_WEIGHT_DECAY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// True if `name` matches `pattern`, where '*' matches any characters. Time: O(product of the lengths).
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Weight decay of a logical tensor, per iteration and relative to the learning rate. The first override of AdamW that
// matches decides. Without one, it is the optimizer's decay if the tensor has two or more dimensions, and otherwise 0.
double WeightDecayOf(const Recipe& recipe, const GraphParameter& parameter);

// Refuses an override whose pattern matches no tensor of `model`. The message suggests the nearest name.
absl::Status CheckDecayOverrides(const ModelGraph& model, const Recipe& recipe);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_WEIGHT_DECAY_H_
