#include "compiler/inputs/weight_decay.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/suggest.h"

namespace weft {

bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = absl::string_view::npos;
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

double WeightDecayOf(const Recipe& recipe, const GraphParameter& parameter) {
  const bool matrix = parameter.shape_size() >= 2;
  if (recipe.has_sgd()) return matrix ? recipe.sgd().weight_decay() : 0;
  for (const DecayOverride& exception : recipe.adamw().overrides()) {
    if (MatchesPattern(exception.pattern(), parameter.name())) return exception.weight_decay();
  }
  if (!matrix) return 0;
  return recipe.adamw().has_weight_decay() ? recipe.adamw().weight_decay() : 0.1;
}

absl::Status CheckDecayOverrides(const ModelGraph& model, const Recipe& recipe) {
  for (int i = 0; i < recipe.adamw().overrides_size(); ++i) {
    const std::string& pattern = recipe.adamw().overrides(i).pattern();
    const auto matches = [&](const GraphParameter& p) { return MatchesPattern(pattern, p.name()); };
    if (std::any_of(model.parameters().begin(), model.parameters().end(), matches)) continue;
    std::vector<std::string> names;
    for (const GraphParameter& parameter : model.parameters()) names.push_back(parameter.name());
    // If the pattern is a part of some name, suggests *pattern*; otherwise suggests the most similar name.
    std::string nearest;
    for (const std::string& name : names) {
      if (nearest.empty() && name.find(pattern) != std::string::npos) nearest = absl::StrCat("*", pattern, "*");
    }
    if (nearest.empty()) nearest = Nearest(pattern, names);
    return absl::InvalidArgumentError(
        absl::StrCat("recipe.adamw.overrides[", i, "].pattern = ", Quoted(pattern), " matches no tensor of model ",
                     Quoted(model.name()), "; '*' matches any characters",
                     nearest.empty() ? "" : absl::StrCat("; nearest: ", Quoted(nearest)),
                     names.empty() ? "" : absl::StrCat("; tensor names look like ", Quoted(names.front()))));
  }
  return absl::OkStatus();
}

}  // namespace weft
