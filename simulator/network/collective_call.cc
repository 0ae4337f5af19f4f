#include "simulator/network/collective_call.h"

#include <algorithm>
#include <utility>

namespace weft::sim {
namespace {

constexpr __int128 kMaxBytes = INT64_MAX;

// Returns the bytes of one message: the longest chunk of every part, summed over the parts whose `one_by_one` equals
// the argument.
__int128 MessageBytes(const CollectiveCall& call, bool one_by_one, int64_t chunks) {
  __int128 bytes = 0;
  for (const CollectivePart& part : call.parts) {
    if (part.one_by_one != one_by_one) continue;
    bytes += static_cast<__int128>(part.elements / chunks + (part.elements % chunks != 0)) * part.element_bytes;
  }
  return bytes;
}

CollectiveTraffic Traffic(const CollectiveCall& call, bool one_by_one, int64_t members) {
  const bool used = std::any_of(call.parts.begin(), call.parts.end(),
                                [&](const CollectivePart& part) { return part.one_by_one == one_by_one; });
  if (!used) return {};
  if (!one_by_one) return call.algorithm->Traffic(members, call.kind);
  const auto direct = FindCollective("direct");
  return direct.ok() ? (*direct)->Traffic(members, call.kind) : CollectiveTraffic{};
}

}  // namespace

std::vector<CollectivePhase> CollectivePhases(const CollectiveCall& call, int64_t members) {
  std::vector<CollectivePhase> phases;
  for (const bool one_by_one : {false, true}) {
    CollectiveTraffic traffic = Traffic(call, one_by_one, members);
    const double bytes = static_cast<double>(MessageBytes(call, one_by_one, traffic.chunks));
    for (CollectiveStage& stage : traffic.stages) phases.push_back({.stage = std::move(stage), .bytes = bytes});
  }
  return phases;
}

int64_t CollectiveBytesSent(const CollectiveCall& call, int64_t members) {
  __int128 sent = 0;
  for (const bool one_by_one : {false, true}) {
    const CollectiveTraffic traffic = Traffic(call, one_by_one, members);
    const __int128 message = std::min(MessageBytes(call, one_by_one, traffic.chunks), kMaxBytes);
    __int128 messages = 0;
    for (const CollectiveStage& stage : traffic.stages) {
      messages = std::min(messages + static_cast<__int128>(stage.rounds) * StageMessages(stage, members), kMaxBytes);
    }
    if (messages > 0) sent = std::min(sent + (message * messages + members - 1) / members, kMaxBytes);
  }
  return static_cast<int64_t>(sent);
}

}  // namespace weft::sim
