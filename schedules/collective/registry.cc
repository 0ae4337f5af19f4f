#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/suggest.h"
#include "schedules/collective/plan.h"

namespace weft {

#define COLLECTIVE(name, function, source) \
  CollectiveBuildFn function;              \
  CollectiveTrafficFn function##Traffic;
#include "schedules/collective/registry.def"
#undef COLLECTIVE

namespace {

constexpr CollectiveEntry kEntries[] = {
#define COLLECTIVE(name, function, source) {name, function, function##Traffic, source},
#include "schedules/collective/registry.def"
#undef COLLECTIVE
};

}  // namespace

absl::string_view CollectiveKindName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
  }
  return "";
}

absl::Span<const CollectiveEntry> Collectives() { return kEntries; }

std::vector<std::string> KnownCollectives() {
  std::vector<std::string> names;
  for (const CollectiveEntry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<const CollectiveEntry*> FindCollective(absl::string_view name) {
  for (const CollectiveEntry& entry : kEntries) {
    if (entry.name == name) return &entry;
  }
  return absl::NotFoundError(absl::StrCat("unknown collective ", Quoted(name), NameHelp(name, KnownCollectives())));
}

absl::StatusOr<CollectivePlan> CollectiveEntry::Build(int64_t members, CollectiveKind kind) const {
  if (members < 1 || members > kMaximumPlanMembers) {
    return absl::InvalidArgumentError(absl::StrCat("collective '", name, "' over ", members, " members; allowed: 1 to ",
                                                   kMaximumPlanMembers,
                                                   ", nearest valid: ", members < 1 ? 1 : kMaximumPlanMembers));
  }
  if (members == 1) return CollectivePlan{.kind = kind, .rounds = {}};
  return build(kind, static_cast<int>(members));
}

CollectiveTraffic CollectiveEntry::Traffic(int64_t members, CollectiveKind kind) const {
  return members < 2 ? CollectiveTraffic{} : traffic(kind, members);
}

}  // namespace weft
