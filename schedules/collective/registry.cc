#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/util/suggest.h"
#include "schedules/collective/plan.h"

namespace weft {

#define COLLECTIVE(name, function, source) \
  CollectiveBuildFn function;              \
  CollectiveTrafficFn function##Traffic;
#define ALL_REDUCE(name, function, source) COLLECTIVE(name, function, source)
#define IN_SWITCH(name, function, source) CollectiveTrafficFn function##Traffic;
#include "schedules/collective/registry.def"
#undef IN_SWITCH
#undef ALL_REDUCE
#undef COLLECTIVE

namespace {

constexpr CollectiveEntry kEntries[] = {
#define COLLECTIVE(name, function, source) {name, function, function##Traffic, false, source},
#define ALL_REDUCE(name, function, source) {name, function, function##Traffic, true, source},
#define IN_SWITCH(name, function, source) {name, nullptr, function##Traffic, false, source},
#include "schedules/collective/registry.def"
#undef IN_SWITCH
#undef ALL_REDUCE
#undef COLLECTIVE
};

// The entry that performs a collective of `kind` for `entry`: "ring" if `entry` only makes all-reduces and `kind` is
// another kind, else `entry` itself.
const CollectiveEntry& Sends(const CollectiveEntry& entry, CollectiveKind kind) {
  if (!entry.all_reduce_only || kind == CollectiveKind::kAllReduce) return entry;
  const auto ring = FindCollective("ring");
  return ring.ok() ? **ring : entry;
}

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
  if (members < 1 || members > kMaxPlanMembers) {
    return absl::InvalidArgumentError(absl::StrCat("collective '", name, "' over ", members, " members; allowed: 1 to ",
                                                   kMaxPlanMembers,
                                                   ", nearest valid: ", members < 1 ? 1 : kMaxPlanMembers));
  }
  if (members == 1) return CollectivePlan{.kind = kind, .rounds = {}};
  if (in_switch()) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective '", name, "' is done by switches of the network, which only a transport with native ",
                     "collectives can ask for: there are no messages between its ", members,
                     " members; nearest valid: 'direct', 'ring'"));
  }
  return Sends(*this, kind).build(kind, static_cast<int>(members));
}

CollectiveTraffic CollectiveEntry::Traffic(int64_t members, CollectiveKind kind) const {
  return members < 2 ? CollectiveTraffic{} : Sends(*this, kind).traffic(kind, members);
}

std::vector<CollectiveExchange> StageExchanges(const CollectiveStage& stage, int64_t members) {
  const int32_t n = static_cast<int32_t>(members);
  std::vector<CollectiveExchange> exchanges;
  switch (stage.pattern) {
    case CollectiveStage::kListed:
      return stage.exchanges;
    case CollectiveStage::kSwitch:
      break;
    case CollectiveStage::kNext:
      for (int32_t member = 0; member < n; ++member) exchanges.push_back({member, (member + 1) % n});
      break;
    case CollectiveStage::kEveryOther:
      for (int32_t source = 0; source < n; ++source) {
        for (int32_t destination = 0; destination < n; ++destination) {
          if (source != destination) exchanges.push_back({source, destination});
        }
      }
      break;
  }
  return exchanges;
}

int64_t StageMessages(const CollectiveStage& stage, int64_t members) {
  if (stage.pattern == CollectiveStage::kNext) return members;
  if (stage.pattern == CollectiveStage::kEveryOther) return members * (members - 1);
  if (stage.pattern == CollectiveStage::kSwitch) return members * stage.sent;
  int64_t messages = 0;
  for (const CollectiveExchange& exchange : stage.exchanges) messages += exchange.messages;
  return messages;
}

}  // namespace weft
