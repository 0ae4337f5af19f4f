#include <vector>

#include "simulator/cost/cost_model.h"
#include "simulator/unknown_name.h"

namespace weft {

#define COST_MODEL(name, function, description) StepCostFn function;
#include "simulator/cost/registry.def"
#undef COST_MODEL

namespace {

constexpr CostModelEntry kCostModels[] = {
#define COST_MODEL(name, function, description) {name, &function, description},
#include "simulator/cost/registry.def"
#undef COST_MODEL
};

}  // namespace

absl::Span<const CostModelEntry> CostModels() { return kCostModels; }

absl::StatusOr<const CostModelEntry*> FindCostModel(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const CostModelEntry& entry : kCostModels) {
    if (entry.name == name) return &entry;
    known.push_back(entry.name);
  }
  return UnknownNameError("cost model", name, known);
}

}  // namespace weft
