#include "executor/collective/collective_route.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// Hands out the lowest free slot numbers.
class Slots {
 public:
  int Take() {
    if (free_.empty()) return count_++;
    const int slot = *free_.begin();
    free_.erase(free_.begin());
    return slot;
  }
  void Give(int slot) {
    if (slot != kHome) free_.insert(slot);
  }
  int count() const { return count_; }

 private:
  std::set<int> free_;
  int count_ = 0;
};

// Assigns a place (a slot or kHome) to each message in `route.rounds`.
absl::Status Place(CollectiveRoute& route) {
  const bool scatters = route.kind == CollectiveKind::kReduceScatter;
  // The last round in which a chunk is sent or received.
  std::map<int, size_t> last_use;
  for (size_t r = 0; r < route.rounds.size(); ++r) {
    for (const RouteMessage& message : route.rounds[r].sends) last_use[message.chunk] = r;
    for (const RouteMessage& message : route.rounds[r].receives) last_use[message.chunk] = r;
  }
  Slots slots;
  // Slots of the partial sums of a reduce-scatter, by chunk. All other chunks are in their own places (kHome).
  std::map<int, int> at;
  const auto place_of = [&](int chunk) {
    const auto found = at.find(chunk);
    return found == at.end() ? kHome : found->second;
  };
  for (size_t r = 0; r < route.rounds.size(); ++r) {
    RouteRound& round = route.rounds[r];
    std::set<int> sent;
    for (RouteMessage& message : round.sends) {
      message.slot = place_of(message.chunk);
      sent.insert(message.chunk);
    }
    for (RouteResult& result : round.results) {
      const int chunk = round.receives[result.first].chunk;
      // A copy is received directly into its place, unless that place is being sent in the same round.
      const bool direct = !result.reduces && !scatters && sent.count(chunk) == 0;
      for (size_t i = result.first; i < result.last; ++i) round.receives[i].slot = direct ? kHome : slots.Take();
    }
    for (RouteResult& result : round.results) {
      const int chunk = round.receives[result.first].chunk;
      result.own_slot = place_of(chunk);
      if (scatters && last_use[chunk] == r && chunk == route.self) {
        result.completes = true;
      } else if (scatters) {
        result.result_slot = round.receives[result.first].slot;
      }
    }
    for (const RouteResult& result : round.results) {
      const int chunk = round.receives[result.first].chunk;
      for (size_t i = result.first; i < result.last; ++i) {
        if (round.receives[i].slot != result.result_slot) slots.Give(round.receives[i].slot);
      }
      slots.Give(place_of(chunk));
      at.erase(chunk);
      if (result.result_slot != kHome) at[chunk] = result.result_slot;
    }
    // Frees the slots of chunks that are not needed any more.
    for (auto it = at.begin(); it != at.end();) {
      if (last_use[it->first] <= r) {
        slots.Give(it->second);
        it = at.erase(it);
      } else {
        ++it;
      }
    }
  }
  const bool completes = route.rounds.empty() || !scatters ||
                         std::any_of(route.rounds.begin(), route.rounds.end(), [](const RouteRound& round) {
                           return std::any_of(round.results.begin(), round.results.end(),
                                              [](const RouteResult& result) { return result.completes; });
                         });
  if (!completes) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduce-scatter: member ", route.self, " sends its own range after its sum is complete"));
  }
  route.slots = slots.count();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CollectiveRoute> RouteOfMember(const CollectivePlan& plan, int self) {
  if (self < 0 || self >= plan.members) {
    return absl::InvalidArgumentError(
        absl::StrCat(CollectiveKindName(plan.kind), " of ", plan.members, " members: there is no member ", self));
  }
  std::vector<CollectiveRoute> routes(plan.members);
  for (int member = 0; member < plan.members; ++member) {
    routes[member].kind = plan.kind;
    routes[member].members = plan.members;
    routes[member].self = member;
    routes[member].chunks = plan.chunks;
    routes[member].rounds.resize(plan.rounds.size());
  }
  for (size_t r = 0; r < plan.rounds.size(); ++r) {
    // Sorted by (destination, chunk, source).
    for (const CollectiveStep& step : plan.rounds[r]) {
      routes[step.source].rounds[r].sends.push_back({step.chunk, step.destination});
      RouteRound& round = routes[step.destination].rounds[r];
      if (round.results.empty() || round.receives.back().chunk != step.chunk) {
        round.results.push_back({.first = round.receives.size(), .reduces = step.op == CollectiveOp::kReduce});
      }
      round.receives.push_back({step.chunk, step.source});
      round.results.back().last = round.receives.size();
    }
  }
  int most = 0;
  for (CollectiveRoute& route : routes) {
    WEFT_RETURN_IF_ERROR(Place(route));
    most = std::max(most, route.slots);
  }
  CollectiveRoute result = std::move(routes[self]);
  result.most_slots = most;
  return result;
}

}  // namespace weft::exec
