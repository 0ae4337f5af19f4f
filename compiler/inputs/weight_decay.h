// Which tensors of a model are decayed by how much: the recipe's patterns and what holds without them.
#ifndef WEFT_COMPILER_INPUTS_WEIGHT_DECAY_H_
#define WEFT_COMPILER_INPUTS_WEIGHT_DECAY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// Whether `name` matches `pattern`, in which '*' stands for any run of characters. Linear in the lengths' product.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Of a logical tensor, per step and relative to the learning rate: the optimizer's where the tensor has two or more
// dimensions and 0 otherwise, unless an override of AdamW says something else; the first that matches counts.
double WeightDecayOf(const Recipe& recipe, const GraphParameter& parameter);

// Refuses an override whose pattern matches no tensor of `model`, naming the nearest.
absl::Status CheckDecayOverrides(const ModelGraph& model, const Recipe& recipe);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_WEIGHT_DECAY_H_
