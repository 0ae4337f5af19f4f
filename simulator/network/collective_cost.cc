#include "simulator/network/collective_cost.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "proto/util/status.h"
#include "simulator/network/flow_rings.h"

namespace weft::sim {
namespace {

// The traffic that one member sends, or receives, inside its node.
struct Inside {
  double overhead = 0;
  // `port`: time of all bytes through the member's port, one message after the other. `link`: time on the slowest of
  // the links that join the member to one other member each.
  double port = 0;
  double link = 0;

  void Add(const MessagePath& path, double messages, double bytes) {
    const double time = messages * (bytes / path.bytes_per_second);
    overhead += messages * path.overhead_seconds;
    if (path.own_link) {
      link = std::max(link, time);
    } else {
      port += time;
    }
  }
  double seconds() const { return overhead + std::max(port, link); }
};

void AddAt(std::vector<double>& sums, int32_t place, double more) {
  if (static_cast<int32_t>(sums.size()) <= place) sums.resize(place + 1, 0);
  sums[place] += more;
}

// The messages of a round in one direction: either all that are sent or all that are received.
struct Side {
  explicit Side(int64_t members) : inside(members), overhead(members, 0), crosses(members, 0) {}

  // For each member: its messages inside the node, the overheads of messages that leave the node, and the farthest
  // border that these messages cross.
  std::vector<Inside> inside;
  std::vector<double> overhead;
  enum Border : uint8_t { kNone, kNode, kPlace };
  std::vector<uint8_t> crosses;
  // Bytes that cross the border of each node, and of each place (GroupPaths::PlaceOf).
  std::vector<double> of_node;
  std::vector<double> of_place;
};

absl::StatusOr<double> Longest(const Side& side, const GroupPaths& paths) {
  std::vector<double> nodes(side.of_node.size(), 0), places(side.of_place.size(), 0);
  for (size_t node = 0; node < nodes.size(); ++node) {
    if (side.of_node[node] == 0) continue;
    WEFT_ASSIGN_OR_RETURN(const double bandwidth, paths.NodeBandwidth(static_cast<int32_t>(node)));
    nodes[node] = side.of_node[node] / bandwidth;
  }
  for (size_t place = 0; place < places.size(); ++place) {
    if (side.of_place[place] == 0) continue;
    WEFT_ASSIGN_OR_RETURN(const double bandwidth, paths.PlaceBandwidth(static_cast<int32_t>(place)));
    places[place] = side.of_place[place] / bandwidth;
  }
  double longest = 0;
  for (size_t member = 0; member < side.inside.size(); ++member) {
    double out = 0;
    if (side.crosses[member] != Side::kNone) {
      const int32_t node = paths.NodeOf(static_cast<int64_t>(member));
      out = nodes[node];
      if (side.crosses[member] == Side::kPlace) out = std::max(out, places[paths.PlaceOf(node)]);
    }
    longest = std::max(longest, side.inside[member].seconds() + side.overhead[member] + out);
  }
  return longest;
}

// Returns the time of a round with these messages. A message that stays in its node has `inside` bytes; a message that
// leaves its node has `bytes` bytes.
absl::StatusOr<RoundTime> ListedRound(const std::vector<CollectiveExchange>& exchanges, double bytes, double inside,
                                      const GroupPaths& paths) {
  Side sent(paths.size()), received(paths.size());
  RoundTime round;
  for (const CollectiveExchange& exchange : exchanges) {
    const auto [source, destination, messages] = exchange;
    WEFT_ASSIGN_OR_RETURN(const MessagePath path, paths.Between(source, destination));
    round.latency_seconds = std::max(round.latency_seconds, path.latency_seconds);
    const int32_t from = paths.NodeOf(source);
    const int32_t to = paths.NodeOf(destination);
    if (from == to) {
      sent.inside[source].Add(path, messages, inside);
      received.inside[destination].Add(path, messages, inside);
      continue;
    }
    const bool far = paths.PlaceOf(from) != paths.PlaceOf(to);
    const auto cross = [&, messages = messages](Side& side, int64_t member, int32_t node) {
      side.overhead[member] += messages * path.overhead_seconds;
      side.crosses[member] = std::max<uint8_t>(side.crosses[member], far ? Side::kPlace : Side::kNode);
      AddAt(side.of_node, node, messages * bytes);
      if (far) AddAt(side.of_place, paths.PlaceOf(node), messages * bytes);
    };
    cross(sent, source, from);
    cross(received, destination, to);
  }
  WEFT_ASSIGN_OR_RETURN(const double out, Longest(sent, paths));
  WEFT_ASSIGN_OR_RETURN(const double in, Longest(received, paths));
  round.seconds = std::max(out, in);
  return round;
}

absl::StatusOr<RoundTime> SwitchRound(const CollectiveStage& stage, double bytes, const GroupPaths& paths) {
  WEFT_ASSIGN_OR_RETURN(const SwitchWay way, paths.Switches());
  std::vector<std::vector<int64_t>> nodes(way.nodes);
  for (int64_t member = 0; member < paths.size(); ++member) {
    nodes[way.nodes == 1 ? 0 : paths.NodeOf(member)].push_back(member);
  }
  // Times of the messages inside the nodes, and of the messages between them.
  RoundTime inside, outside;
  const double messages = std::max(stage.sent, stage.received);
  const SwitchMessages past = MessagesPast(stage, paths.size(), way.on_node);
  const double crossing = static_cast<double>(std::max(past.out, past.in));
  for (size_t node = 0; node < nodes.size(); ++node) {
    const std::vector<int64_t>& own = nodes[node];
    for (size_t i = 0; i < own.size() && own.size() > 1; ++i) {
      WEFT_ASSIGN_OR_RETURN(const MessagePath path, paths.Between(own[i], own[(i + 1) % own.size()]));
      inside.seconds = std::max(inside.seconds, messages * (path.overhead_seconds + bytes / path.bytes_per_second));
      inside.latency_seconds = std::max(inside.latency_seconds, path.latency_seconds);
    }
    if (way.nodes == 1) return inside;
    WEFT_ASSIGN_OR_RETURN(const double bandwidth, paths.NodeBandwidth(static_cast<int32_t>(node)));
    const int64_t other = nodes[node == 0 ? 1 : 0].front();
    for (const int64_t member : own) {
      WEFT_ASSIGN_OR_RETURN(const MessagePath path, paths.Between(member, other));
      outside.seconds = std::max(outside.seconds, crossing * (path.overhead_seconds + bytes / bandwidth));
      outside.latency_seconds = std::max(outside.latency_seconds, path.latency_seconds);
    }
  }
  // Each place (GroupPaths::PlaceOf) passes one sum on to the other places.
  std::vector<int64_t> places;
  for (size_t node = 0; node < nodes.size(); ++node) {
    const size_t place = static_cast<size_t>(paths.PlaceOf(static_cast<int32_t>(node)));
    if (places.size() <= place) places.resize(place + 1, 0);
    places[place] += static_cast<int64_t>(nodes[node].size());
  }
  for (size_t place = 0; place < places.size() && places.size() > 1; ++place) {
    const SwitchMessages above = MessagesPast(stage, paths.size(), places[place]);
    WEFT_ASSIGN_OR_RETURN(const double bandwidth, paths.PlaceBandwidth(static_cast<int32_t>(place)));
    outside.seconds = std::max(outside.seconds, static_cast<double>(std::max(above.out, above.in)) * bytes / bandwidth);
  }
  // A message passes the node's switch on its way up and again on its way down, so the latency inside counts twice. The
  // switches above add theirs.
  return RoundTime{std::max(inside.seconds, outside.seconds),
                   2 * inside.latency_seconds + outside.latency_seconds + way.latency_seconds};
}

// Time of a round in which every member sends to every other member. It is calculated without a list of the members^2
// messages.
absl::StatusOr<RoundTime> EveryOtherRound(double bytes, const GroupPaths& paths) {
  std::vector<std::vector<int64_t>> nodes;
  for (int64_t member = 0; member < paths.size(); ++member) {
    const int32_t node = paths.NodeOf(member);
    if (static_cast<int32_t>(nodes.size()) <= node) nodes.resize(node + 1);
    nodes[node].push_back(member);
  }
  std::vector<double> places;
  for (size_t node = 0; node < nodes.size(); ++node) {
    AddAt(places, paths.PlaceOf(static_cast<int32_t>(node)), static_cast<double>(nodes[node].size()));
  }
  RoundTime round;
  WEFT_ASSIGN_OR_RETURN(round.latency_seconds, paths.Latency());
  for (size_t node = 0; node < nodes.size(); ++node) {
    const double inside = static_cast<double>(nodes[node].size());
    const double outside = static_cast<double>(paths.size()) - inside;
    double crossing = 0;
    if (outside > 0) {
      const int64_t other = nodes[node == 0 ? 1 : 0].front();
      WEFT_ASSIGN_OR_RETURN(const MessagePath path, paths.Between(nodes[node].front(), other));
      WEFT_ASSIGN_OR_RETURN(const double bandwidth, paths.NodeBandwidth(static_cast<int32_t>(node)));
      double seconds = outside * (inside * bytes / bandwidth);
      const int32_t place = paths.PlaceOf(static_cast<int32_t>(node));
      const double far = static_cast<double>(paths.size()) - places[place];
      if (far > 0) {
        WEFT_ASSIGN_OR_RETURN(const double above, paths.PlaceBandwidth(place));
        seconds = std::max(seconds, far * (places[place] * bytes / above));
      }
      crossing = outside * path.overhead_seconds + seconds;
    }
    for (const int64_t source : nodes[node]) {
      Inside sent;
      for (const int64_t destination : nodes[node]) {
        if (source == destination) continue;
        WEFT_ASSIGN_OR_RETURN(const MessagePath path, paths.Between(source, destination));
        sent.Add(path, 1, bytes);
      }
      round.seconds = std::max(round.seconds, sent.seconds() + crossing);
    }
  }
  return round;
}

// True if every two members have a link of their own, and all these links are equally fast.
absl::StatusOr<bool> LinkedPairwise(const GroupPaths& paths, const std::vector<int64_t>& members) {
  if (std::ssize(members) > kMaxLinkedMembers) return false;
  double speed = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t j = i + 1; j < members.size(); ++j) {
      WEFT_ASSIGN_OR_RETURN(const MessagePath path, paths.Between(members[i], members[j]));
      if (!path.own_link || (speed != 0 && path.bytes_per_second != speed)) return false;
      speed = path.bytes_per_second;
    }
  }
  return true;
}

// A ring algorithm cuts a message over several rings that run at the same time. Returns the fraction of a message that
// one link or port carries inside a node.
absl::StatusOr<double> RingPart(const GroupPaths& paths) {
  std::vector<std::vector<int64_t>> nodes;
  for (int64_t member = 0; member < paths.size(); ++member) {
    const int32_t node = paths.NodeOf(member);
    if (static_cast<int32_t>(nodes.size()) <= node) nodes.resize(node + 1);
    nodes[node].push_back(member);
  }
  bool linked = true;
  for (const std::vector<int64_t>& node : nodes) {
    // If some nodes have more members than others, those nodes have a link that all rings use.
    if (node.size() != nodes.front().size()) return 1.0;
    if (!linked) continue;
    WEFT_ASSIGN_OR_RETURN(linked, LinkedPairwise(paths, node));
  }
  if (nodes.size() > 1) return InsidePart(std::ssize(nodes.front()), linked);
  return linked ? 1 / static_cast<double>(BalancedLinks(paths.size())) : 1.0;
}

absl::StatusOr<RoundTime> RingRound(const CollectiveStage& stage, double bytes, const GroupPaths& paths) {
  WEFT_ASSIGN_OR_RETURN(const double part, RingPart(paths));
  return ListedRound(StageExchanges(stage, paths.size()), bytes, bytes * part, paths);
}

}  // namespace

absl::StatusOr<double> GroupPaths::PlaceBandwidth(int32_t) const { return std::numeric_limits<double>::infinity(); }

absl::StatusOr<RoundTime> StageRoundTime(const CollectivePhase& phase, const GroupPaths& paths) {
  if (phase.stage.pattern == CollectiveStage::kEveryOther) return EveryOtherRound(phase.bytes, paths);
  if (phase.stage.pattern == CollectiveStage::kSwitch) return SwitchRound(phase.stage, phase.bytes, paths);
  if (phase.stage.pattern == CollectiveStage::kListed) {
    return ListedRound(phase.stage.exchanges, phase.bytes, phase.bytes, paths);
  }
  return RingRound(phase.stage, phase.bytes, paths);
}

absl::StatusOr<TransferTime> RoundsTime(absl::Span<const CollectivePhase> phases, const GroupPaths& paths) {
  if (phases.empty()) return TransferTime{};
  WEFT_ASSIGN_OR_RETURN(const double latency, paths.Latency());
  double time = 0;
  double latencies = 0;
  for (const CollectivePhase& phase : phases) {
    WEFT_ASSIGN_OR_RETURN(const RoundTime round, StageRoundTime(phase, paths));
    time += static_cast<double>(phase.stage.rounds) * round.seconds;
    latencies += static_cast<double>(phase.stage.rounds) * round.latency_seconds;
  }
  return TransferTime{FromSeconds(std::max(time + (latencies - latency), 0.0)), FromSeconds(latency)};
}

}  // namespace weft::sim
