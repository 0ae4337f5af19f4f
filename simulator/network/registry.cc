#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/suggest.h"
#include "simulator/network/network_model.h"

namespace weft {

#define NETWORK_MODEL(name, function, description) NetworkModelFn function;
#include "simulator/network/registry.def"
#undef NETWORK_MODEL

namespace {

constexpr NetworkModelEntry kNetworkModels[] = {
#define NETWORK_MODEL(name, function, description) {name, &function, description},
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

}  // namespace weft
