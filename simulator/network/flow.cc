// The "flow" network: transfers and collectives as flows over the links of the cluster (topology.h). Everything in
// flight shares the links, max-min fair (rule P12).
//
// Transfer of S bytes:   one phase of overhead, then S bytes over its route        finished the route's latency later
// Collective:            the rounds of its algorithm (collective_call.h); rounds of equal messages are one phase:
//   All messages of a round move at the rate of the slowest message: rounds are in lock step.
//   Fixed part = rounds * (overhead + latency). The overhead is the sum for all messages that one member sends, or
//                receives, in a round; the latency is the longest of a round's messages.
//   A message of a phase moves rounds * c bytes, where c is the longest chunk. If members have a link to every other
//                member, or if each of several nodes has several members, a ring's messages are cut over several rings
//                (flow_rings.h), with c / rings bytes each, rounded up.
//   If a switch runs the collective, a member's outgoing link carries all bytes that the member sends, and its incoming
//                link carries all bytes that it receives.
//   The collective finishes one group latency after its last phase ends. The group latency is the longest latency from
//                one member to the next, in order of ranks and around. It is subtracted from the fixed part, which
//                includes the latency of the last round.
// So on an idle network a ring over S bytes between n devices of one kind of link takes, as on "analytic",
//     (n-1) (overhead + latency) + (n-1)/n S / B for an all-gather or a reduce-scatter, twice that for an all-reduce.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/network/flow_rings.h"
#include "simulator/network/link_loads.h"
#include "simulator/network/network_model.h"
#include "simulator/network/placement.h"
#include "simulator/network/switch_reduces.h"
#include "simulator/network/topology.h"

namespace weft::sim {
namespace {

// In a group of more than kMaxExactMembers members, if every member sends to every other, at most kDistances of the
// distances between members are simulated. Each of them stands for the distances next to it. Each member sends and
// receives the same bytes as with all distances; the loads of links of the fabric are about the same.
constexpr int64_t kMaxExactMembers = 512;
constexpr int64_t kDistances = 64;
// The largest groups use fewer distances, so that at most kMaxRoutes routes are computed.
constexpr int64_t kMaxRoutes = int64_t{1} << 22;
constexpr double kMaxBytes = 4.6e18;

// Cost of one round of a stage.
struct RoundCost {
  std::vector<std::pair<int32_t, int32_t>> loads = {};
  double overhead = 0;
  double latency = 0;
  // Number of parts that a message is cut into.
  int64_t parts = 1;
};

class FlowNetwork : public NetworkModel {
 public:
  FlowNetwork(const Mesh& mesh, const Cluster& cluster) : cluster_(cluster) {
    status_ = Build(MeshRanks(mesh), cluster);
  }

  absl::Span<const int64_t> LinkCapacities() const override { return capacities_; }

  absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_RETURN_IF_ERROR(status_);
    WEFT_ASSIGN_OR_RETURN(const LinkRoute route, topology_->RouteOfRanks(source, destination));
    loads_->Clear();
    FlowPhase phase = {.fixed_ps = FromSeconds(route.overhead_seconds).ps};
    loads_->Add(route.links, 1);
    phase.loads = loads_->Take();
    if (!phase.loads.empty()) phase.bytes = bytes;
    return Flow{.phases = {std::move(phase)}, .latency = FromSeconds(route.latency_seconds)};
  }

  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm&,
                                      absl::Span<const int64_t> members) const override {
    WEFT_RETURN_IF_ERROR(status_);
    const int64_t n = static_cast<int64_t>(members.size());
    Flow flow;
    if (n < 2) return flow;
    WEFT_ASSIGN_OR_RETURN(const double group_latency, GroupLatency(members));
    flow.latency = FromSeconds(group_latency);
    std::vector<double> fixed;
    for (const CollectivePhase& phase : CollectivePhases(call, n)) {
      WEFT_ASSIGN_OR_RETURN(RoundCost round, CostOfRound(phase.stage, members));
      const double rounds = static_cast<double>(phase.stage.rounds);
      const double message = std::ceil(phase.bytes / static_cast<double>(round.parts));
      const int64_t bytes = round.loads.empty() ? 0 : static_cast<int64_t>(std::min(rounds * message, kMaxBytes));
      const double seconds = rounds * (round.overhead + round.latency);
      if (flow.phases.empty() || flow.phases.back().loads != round.loads) {
        flow.phases.push_back({.loads = std::move(round.loads)});
        fixed.push_back(0);
      }
      fixed.back() += seconds;
      flow.phases.back().bytes = std::min(flow.phases.back().bytes + bytes, static_cast<int64_t>(kMaxBytes));
    }
    double ahead = group_latency;
    for (size_t i = fixed.size(); i-- > 0;) {
      const double taken = std::min(ahead, fixed[i]);
      ahead -= taken;
      flow.phases[i].fixed_ps = FromSeconds(fixed[i] - taken).ps;
    }
    return flow;
  }

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(const Flow flow, TransferFlow(source, destination, bytes));
    return IdleTime(flow);
  }

  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    WEFT_ASSIGN_OR_RETURN(const Flow flow, CollectiveFlow(call, form, members));
    return IdleTime(flow);
  }

 private:
  absl::Status Build(int64_t ranks, const Cluster& cluster) {
    WEFT_ASSIGN_OR_RETURN(RankPlacement placement, RankPlacement::Make(ranks, cluster));
    placement_.emplace(std::move(placement));
    WEFT_ASSIGN_OR_RETURN(Topology topology, Topology::Make(cluster, *placement_));
    topology_.emplace(std::move(topology));
    for (const TopologyLink& link : topology_->links()) capacities_.push_back(link.bytes_per_second);
    loads_.emplace(capacities_.size());
    return absl::OkStatus();
  }

  // Returns the time of a flow on an idle network.
  TransferTime IdleTime(const Flow& flow) const {
    __int128 time = 0;
    for (const FlowPhase& phase : flow.phases) {
      time += phase.fixed_ps;
      if (phase.bytes == 0) continue;
      int64_t rate = INT64_MAX;
      for (const auto& [link, load] : phase.loads) rate = std::min(rate, capacities_[link] / load);
      rate = std::max<int64_t>(rate, 1);
      time += (static_cast<__int128>(phase.bytes) * 1'000'000'000'000 + rate - 1) / rate;
    }
    return {{static_cast<int64_t>(std::min<__int128>(time, int64_t{1} << 62))}, flow.latency};
  }

  absl::StatusOr<double> GroupLatency(absl::Span<const int64_t> members) const {
    double latency = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      WEFT_ASSIGN_OR_RETURN(const LinkRoute route,
                            topology_->RouteOfRanks(members[i], members[(i + 1) % members.size()]));
      latency = std::max(latency, route.latency_seconds);
    }
    return latency;
  }

  absl::StatusOr<RoundCost> CostOfRound(const CollectiveStage& stage, absl::Span<const int64_t> members) const {
    switch (stage.pattern) {
      case CollectiveStage::kNext:
        return CostOfRings(members);
      case CollectiveStage::kEveryOther:
        return CostOfEveryOther(members);
      case CollectiveStage::kSwitch:
        return CostOfSwitch(stage, members);
      case CollectiveStage::kListed:
        break;
    }
    Round round(members.size());
    loads_->Clear();
    for (const CollectiveExchange& exchange : stage.exchanges) {
      WEFT_RETURN_IF_ERROR(AddMessages(members, exchange.source, exchange.destination, exchange.messages, round));
    }
    return TakeRound(round);
  }

  absl::StatusOr<RoundCost> CostOfRings(absl::Span<const int64_t> members) const {
    const std::vector<std::vector<int32_t>> rings = RingsOver(members);
    RoundCost cost = {.parts = static_cast<int64_t>(rings.size())};
    loads_->Clear();
    for (const std::vector<int32_t>& ring : rings) {
      for (size_t i = 0; i < ring.size(); ++i) {
        WEFT_ASSIGN_OR_RETURN(const LinkRoute route,
                              topology_->RouteOfRanks(members[ring[i]], members[ring[(i + 1) % ring.size()]]));
        loads_->Add(route.links, 1);
        // Rings run at the same time, so the slowest counts.
        cost.overhead = std::max(cost.overhead, route.overhead_seconds);
        cost.latency = std::max(cost.latency, route.latency_seconds);
      }
    }
    cost.loads = loads_->Take();
    return cost;
  }

  std::vector<std::vector<int32_t>> RingsOver(absl::Span<const int64_t> members) const {
    if (LinkedPairwise(members)) return BalancedRings(static_cast<int32_t>(members.size()));
    std::vector<int64_t> nodes;
    for (const int64_t member : members) nodes.push_back(placement_->NodeOf(member));
    return RotatedRings(nodes, LinkedOnNodes(members, nodes));
  }

  // True if there are several nodes, and on each of them every two members have a link of their own, all equally fast.
  bool LinkedOnNodes(absl::Span<const int64_t> members, absl::Span<const int64_t> nodes) const {
    std::map<int64_t, std::vector<int64_t>> on_node;
    for (size_t i = 0; i < members.size(); ++i) on_node[nodes[i]].push_back(members[i]);
    if (on_node.size() < 2) return false;
    return std::all_of(on_node.begin(), on_node.end(), [&](const auto& node) { return LinkedPairwise(node.second); });
  }

  // True if all members are on one node and every two have a link of their own, all equally fast.
  bool LinkedPairwise(absl::Span<const int64_t> members) const {
    if (static_cast<int64_t>(members.size()) > kMaxLinkedMembers) return false;
    int64_t speed = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      for (size_t j = i + 1; j < members.size(); ++j) {
        const absl::StatusOr<LinkRoute> route = topology_->RouteOfRanks(members[i], members[j]);
        if (!route.ok() || route->links.size() != 1) return false;
        const TopologyLink& link = topology_->links()[route->links[0]];
        if (link.role != LinkRole::kPair || (speed != 0 && link.bytes_per_second != speed)) return false;
        speed = link.bytes_per_second;
      }
    }
    return true;
  }

  absl::StatusOr<RoundCost> CostOfEveryOther(absl::Span<const int64_t> members) const {
    const int64_t n = static_cast<int64_t>(members.size());
    const auto known = every_other_.find({members.begin(), members.end()});
    if (known != every_other_.end()) return known->second;
    Round round(members.size());
    loads_->Clear();
    const int64_t distances = n <= kMaxExactMembers ? n - 1 : std::clamp<int64_t>(kMaxRoutes / n, /*lo=*/4, kDistances);
    for (int64_t i = 0; i < distances; ++i) {
      // The first of the distances [first, next) stands for all of them.
      const int64_t first = 1 + i * (n - 1) / distances, next = 1 + (i + 1) * (n - 1) / distances;
      for (int64_t source = 0; source < n; ++source) {
        WEFT_RETURN_IF_ERROR(AddMessages(members, source, (source + first) % n, next - first, round));
      }
    }
    return every_other_[{members.begin(), members.end()}] = TakeRound(round);
  }

  absl::StatusOr<RoundCost> CostOfSwitch(const CollectiveStage& stage, absl::Span<const int64_t> members) const {
    std::vector<int64_t> nodes;
    std::map<int64_t, std::vector<int64_t>> on_node;
    for (const int64_t member : members) {
      nodes.push_back(placement_->NodeOf(member));
      on_node[nodes.back()].push_back(member);
    }
    WEFT_ASSIGN_OR_RETURN(const SwitchWay way, SwitchWayOf(cluster_, nodes));
    const int64_t n = static_cast<int64_t>(members.size());
    // Each member of a node sends one part of every message out of the node.
    RoundCost cost = {.parts = way.nodes > 1 ? way.on_node : 1};
    loads_->Clear();
    double inside = 0;
    for (const auto& [node, own] : on_node) {
      for (size_t i = 0; i < own.size() && own.size() > 1; ++i) {
        // The route leads from one member through the switch to the next. Its first link belongs to the sender, its
        // last link to the receiver.
        WEFT_ASSIGN_OR_RETURN(const LinkRoute route, topology_->RouteOfRanks(own[i], own[(i + 1) % own.size()]));
        loads_->Add(absl::MakeConstSpan(&route.links.front(), 1), cost.parts * stage.sent);
        loads_->Add(absl::MakeConstSpan(&route.links.back(), 1), cost.parts * stage.received);
        cost.overhead = std::max(cost.overhead, std::max(stage.sent, stage.received) * route.overhead_seconds);
        inside = std::max(inside, route.latency_seconds);
      }
    }
    cost.latency = inside;
    if (way.nodes > 1) {
      const SwitchMessages past = MessagesPast(stage, n, way.on_node);
      double outside = 0, overhead = 0;
      for (int64_t part = 0; part < way.on_node; ++part) {
        std::vector<int64_t> tree;
        for (const auto& [node, own] : on_node) tree.push_back(own[part]);
        WEFT_RETURN_IF_ERROR(AddTree(stage, n, way.on_node, past, tree, &outside, &overhead));
      }
      cost.overhead = std::max(cost.overhead, static_cast<double>(std::max(past.out, past.in)) * overhead);
      cost.latency = 2 * inside + outside + way.latency_seconds;
    }
    cost.loads = loads_->Take();
    return cost;
  }

  // Adds the loads of summing one part of a message over a group of `members` members, `on_node` on each node. The
  // ranks in `tree` send the part. The root of the sum is the leaf switch above the first of them.
  absl::Status AddTree(const CollectiveStage& stage, int64_t members, int64_t on_node, const SwitchMessages& past,
                       absl::Span<const int64_t> tree, double* latency, double* overhead) const {
    const auto role = [&](int32_t link) { return topology_->links()[link].role; };
    struct Leaf {
      int32_t up = -1, down = -1;
      int64_t nodes = 0;
    };
    // The leaf switches by place and rail, except the leaf above the first rank (`root`).
    std::map<std::pair<int64_t, int32_t>, Leaf> leaves;
    Leaf root;
    for (size_t i = 0; i < tree.size(); ++i) {
      const int64_t partner = tree[i == 0 ? 1 : 0];
      WEFT_ASSIGN_OR_RETURN(const LinkRoute out, topology_->RouteOfRanks(tree[i], partner));
      WEFT_ASSIGN_OR_RETURN(const LinkRoute in, topology_->RouteOfRanks(partner, tree[i]));
      *latency = std::max(*latency, out.latency_seconds);
      *overhead = std::max(*overhead, out.overhead_seconds);
      // The rank's own links are those of `out` up to its interface's outgoing link, and those of `in` from its
      // interface's incoming link on.
      size_t own = 0;
      while (own < out.links.size() && role(out.links[own]) != LinkRole::kInterfaceOut) ++own;
      loads_->Add(absl::MakeConstSpan(out.links).subspan(0, own + 1), past.out);
      size_t first = in.links.size();
      while (first > 0 && role(in.links[first - 1]) != LinkRole::kInterfaceIn) --first;
      loads_->Add(absl::MakeConstSpan(in.links).subspan(std::max<size_t>(first, 1) - 1), past.in);
      const auto up = std::find_if(out.links.begin(), out.links.end(),
                                   [&](int32_t link) { return role(link) == LinkRole::kLeafUp; });
      if (i == 0 || up == out.links.end()) {
        ++root.nodes;
        continue;
      }
      const TopologyLink& link = topology_->links()[*up];
      Leaf& leaf = leaves[{link.place, link.to}];
      leaf.up = *up;
      leaf.down = *up + 1;
      ++leaf.nodes;
      // The next link of the route leads down into the root's leaf, because the same switch above joins both leaves.
      // Data from other leaves also uses that link.
      root.down = *(up + 1);
      root.up = root.down - 1;
    }
    if (leaves.empty()) return absl::OkStatus();
    leaves[{-1, -1}] = root;
    for (const auto& [place, leaf] : leaves) {
      const SwitchMessages of_leaf = MessagesPast(stage, members, on_node * leaf.nodes);
      loads_->Add(absl::MakeConstSpan(&leaf.up, 1), of_leaf.out);
      loads_->Add(absl::MakeConstSpan(&leaf.down, 1), of_leaf.in);
    }
    return absl::OkStatus();
  }

  // Overheads and latency of the messages of one round. The loads of these messages are in loads_.
  struct Round {
    explicit Round(size_t members) : sent(members, 0), received(members, 0) {}
    // For each member: the sum of the overheads of the messages that it sends, and the sum for the messages that it
    // receives.
    std::vector<double> sent;
    std::vector<double> received;
    double latency = 0;
  };

  absl::Status AddMessages(absl::Span<const int64_t> members, int64_t source, int64_t destination, int64_t messages,
                           Round& round) const {
    WEFT_ASSIGN_OR_RETURN(const LinkRoute route, topology_->RouteOfRanks(members[source], members[destination]));
    loads_->Add(route.links, messages);
    round.sent[source] += static_cast<double>(messages) * route.overhead_seconds;
    round.received[destination] += static_cast<double>(messages) * route.overhead_seconds;
    round.latency = std::max(round.latency, route.latency_seconds);
    return absl::OkStatus();
  }

  RoundCost TakeRound(const Round& round) const {
    return {.loads = loads_->Take(),
            .overhead = std::max(*std::max_element(round.sent.begin(), round.sent.end()),
                                 *std::max_element(round.received.begin(), round.received.end())),
            .latency = round.latency};
  }

  const Cluster& cluster_;
  // The error if the cluster cannot be used; all calls return this error.
  absl::Status status_;
  std::optional<RankPlacement> placement_;
  std::optional<Topology> topology_;
  std::vector<int64_t> capacities_;
  // Kept between calls: `loads_` to reuse its memory, and `every_other_` because several collectives of a group send
  // from each member to every other.
  mutable std::optional<LinkLoads> loads_;
  mutable std::map<std::vector<int64_t>, RoundCost> every_other_;
};

}  // namespace

std::unique_ptr<NetworkModel> MakeFlowNetwork(const Mesh& mesh, const Cluster& cluster) {
  return std::make_unique<FlowNetwork>(mesh, cluster);
}

}  // namespace weft::sim
