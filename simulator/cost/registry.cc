#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/suggest.h"
#include "simulator/cost/cost_model.h"

namespace weft::sim {

#define COST_MODEL(name, function, basis, description) StepCostFn function;
#include "simulator/cost/registry.def"
#undef COST_MODEL

namespace {

constexpr CostModelEntry kCostModels[] = {
#define COST_MODEL(name, function, basis, description) {name, &function, basis, description},
#include "simulator/cost/registry.def"
#undef COST_MODEL
};

}  // namespace

absl::Span<const CostModelEntry> CostModels() { return kCostModels; }

std::string BestCostModel(const Cluster& cluster) {
  const auto has_tiles = [](const Device& device) { return device.has_tiles(); };
  bool all = has_tiles(cluster.device());
  for (const OtherDevices& other : cluster.other_devices()) {
    all = all && (!other.has_device() || has_tiles(other.device()));
  }
  return all ? "tiles" : "roofline";
}

absl::StatusOr<const CostModelEntry*> FindCostModel(absl::string_view name) {
  std::vector<std::string> known;
  for (const CostModelEntry& entry : kCostModels) {
    if (entry.name == name) return &entry;
    known.emplace_back(entry.name);
  }
  return absl::NotFoundError(absl::StrCat("unknown cost model ", Quoted(name), NameHelp(name, known)));
}

std::vector<std::string> DeviceCostModels() {
  std::vector<std::string> names;
  for (const CostModelEntry& entry : kCostModels) {
    if (entry.basis == CostBasis::kDevice) names.emplace_back(entry.name);
  }
  return names;
}

bool KnowsDevice(absl::string_view name) {
  const auto entry = FindCostModel(name);
  return !entry.ok() || (*entry)->basis == CostBasis::kDevice;
}

}  // namespace weft::sim
