#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/suggest.h"
#include "simulator/network/network_model.h"

namespace weft::sim {

#define NETWORK_MODEL(name, function, traits, description) NetworkModelFn function;
#include "simulator/network/registry.def"
#undef NETWORK_MODEL

namespace {

constexpr NetworkModelEntry kNetworkModels[] = {
#define NETWORK_MODEL(name, function, traits, description) {name, &function, traits, description},
#include "simulator/network/registry.def"
#undef NETWORK_MODEL
};

}  // namespace

absl::Span<const NetworkModelEntry> NetworkModels() { return kNetworkModels; }

absl::StatusOr<const NetworkModelEntry*> FindNetworkModel(absl::string_view name) {
  std::vector<std::string> known;
  for (const NetworkModelEntry& entry : kNetworkModels) {
    if (entry.name == name) return &entry;
    known.emplace_back(entry.name);
  }
  return absl::NotFoundError(absl::StrCat("unknown network model ", Quoted(name), NameHelp(name, known)));
}

bool HasTrait(absl::string_view name, NetworkTrait trait) {
  const auto entry = FindNetworkModel(name);
  return entry.ok() && ((*entry)->traits & trait) != 0;
}

absl::StatusOr<Flow> NetworkModel::TransferFlow(int64_t, int64_t, int64_t) const {
  return absl::UnimplementedError("this network shares no links");
}

absl::StatusOr<Flow> NetworkModel::CollectiveFlow(const CollectiveCall&, const GroupForm&,
                                                  absl::Span<const int64_t>) const {
  return absl::UnimplementedError("this network shares no links");
}

}  // namespace weft::sim
