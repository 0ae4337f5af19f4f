#include "simulator/network/collective_cost.h"

#include <algorithm>

#include "proto/status.h"

namespace weft {
namespace {

// One direction of what a round moves.
struct Side {
  explicit Side(int64_t members) : busy(members, 0), crosses(members, false) {}

  // By member: time of its messages, without the bytes that cross.
  std::vector<double> busy;
  std::vector<bool> crosses;
  // By node: bytes that cross its border.
  std::vector<double> bytes;

  void Cross(int64_t member, int32_t node, double overhead, double more) {
    if (static_cast<int32_t>(bytes.size()) <= node) bytes.resize(node + 1, 0);
    busy[member] += overhead;
    crosses[member] = true;
    bytes[node] += more;
  }
};

absl::StatusOr<double> Longest(const Side& side, const GroupPaths& paths) {
  std::vector<double> crossing(side.bytes.size(), 0);
  for (size_t node = 0; node < side.bytes.size(); ++node) {
    if (side.bytes[node] == 0) continue;
    WEFT_ASSIGN_OR_RETURN(const double bandwidth, paths.NodeBandwidth(static_cast<int32_t>(node)));
    crossing[node] = side.bytes[node] / bandwidth;
  }
  double longest = 0;
  for (size_t member = 0; member < side.busy.size(); ++member) {
    const double out = side.crosses[member] ? crossing[paths.NodeOf(static_cast<int64_t>(member))] : 0;
    longest = std::max(longest, side.busy[member] + out);
  }
  return longest;
}

absl::StatusOr<RoundTime> ListedRound(const std::vector<CollectiveExchange>& exchanges, double bytes,
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
      const double time = messages * (path.overhead_seconds + bytes / path.bytes_per_second);
      sent.busy[source] += time;
      received.busy[destination] += time;
    } else {
      sent.Cross(source, from, messages * path.overhead_seconds, messages * bytes);
      received.Cross(destination, to, messages * path.overhead_seconds, messages * bytes);
    }
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
  // In the nodes, and between them.
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
  // Up through the node's switch, up to the one that has all, and down.
  return RoundTime{std::max(inside.seconds, outside.seconds),
                   2 * inside.latency_seconds + outside.latency_seconds + way.latency_seconds};
}

// Without a list of members^2.
absl::StatusOr<RoundTime> EveryOtherRound(double bytes, const GroupPaths& paths) {
  std::vector<std::vector<int64_t>> nodes;
  for (int64_t member = 0; member < paths.size(); ++member) {
    const int32_t node = paths.NodeOf(member);
    if (static_cast<int32_t>(nodes.size()) <= node) nodes.resize(node + 1);
    nodes[node].push_back(member);
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
      crossing = outside * (path.overhead_seconds + inside * bytes / bandwidth);
    }
    for (const int64_t source : nodes[node]) {
      double busy = crossing;
      for (const int64_t destination : nodes[node]) {
        if (source == destination) continue;
        WEFT_ASSIGN_OR_RETURN(const MessagePath path, paths.Between(source, destination));
        busy += path.overhead_seconds + bytes / path.bytes_per_second;
      }
      round.seconds = std::max(round.seconds, busy);
    }
  }
  return round;
}

}  // namespace

absl::StatusOr<RoundTime> StageRoundTime(const CollectivePhase& phase, const GroupPaths& paths) {
  if (phase.stage.pattern == CollectiveStage::kEveryOther) return EveryOtherRound(phase.bytes, paths);
  if (phase.stage.pattern == CollectiveStage::kSwitch) return SwitchRound(phase.stage, phase.bytes, paths);
  if (phase.stage.pattern == CollectiveStage::kListed) return ListedRound(phase.stage.exchanges, phase.bytes, paths);
  return ListedRound(StageExchanges(phase.stage, paths.size()), phase.bytes, paths);
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

}  // namespace weft
