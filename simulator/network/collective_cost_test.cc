// Compares the time of every algorithm with its closed form, on links of one kind and of two kinds.
#include "simulator/network/collective_cost.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

constexpr double kLatency = 3e-6;
constexpr double kBandwidth = 1e9;

// `size` members fill nodes of `inside` members, one node after the other. `outside` is the bandwidth from one node to
// all other nodes.
class TestPaths : public GroupPaths {
 public:
  explicit TestPaths(int64_t size, int64_t inside = 1 << 30) : size_(size), inside_(inside) {}

  int64_t size() const override { return size_; }
  int32_t NodeOf(int64_t member) const override { return static_cast<int32_t>(member / inside_); }
  absl::StatusOr<MessagePath> Between(int64_t source, int64_t destination) const override {
    const bool crosses = NodeOf(source) != NodeOf(destination);
    return MessagePath{overhead, crosses ? latency_outside : kLatency, kBandwidth, linked && !crosses};
  }
  absl::StatusOr<double> NodeBandwidth(int32_t) const override { return outside; }
  int32_t PlaceOf(int32_t node) const override { return static_cast<int32_t>(node / nodes_of_place); }
  absl::StatusOr<double> PlaceBandwidth(int32_t) const override { return above; }
  absl::StatusOr<SwitchWay> Switches() const override {
    if (size_ <= inside_) return SwitchWay{.nodes = 1, .on_node = size_};
    if (reduce_latency < 0) return absl::FailedPreconditionError("several nodes");
    return SwitchWay{.nodes = size_ / inside_, .on_node = inside_, .latency_seconds = reduce_latency};
  }
  absl::StatusOr<double> Latency() const override {
    return size_ > inside_ ? std::max(kLatency, latency_outside) : kLatency;
  }

  double overhead = 0;
  double latency_outside = kLatency;
  double outside = kBandwidth;
  // True if every two members on a node have a link of their own.
  bool linked = false;
  int64_t nodes_of_place = 1 << 30;
  double above = kBandwidth;
  // Latency of the switches that sum between nodes; negative = these switches do not sum.
  double reduce_latency = -1;

 private:
  int64_t size_;
  int64_t inside_;
};

// Returns the time from the start to the finish; `bytes` counts elements of one byte.
double Seconds(const std::string& algorithm, CollectiveKind kind, int64_t bytes, const GroupPaths& paths) {
  const CollectiveCall call = {
      .kind = kind, .algorithm = *FindCollective(algorithm), .parts = {{.elements = bytes, .element_bytes = 1}}};
  const auto time = RoundsTime(CollectivePhases(call, paths.size()), paths);
  EXPECT_TRUE(time.ok()) << time.status();
  return static_cast<double>(time->occupancy.ps + time->latency.ps) * 1e-12;
}

double AllReduce(const std::string& algorithm, int64_t bytes, const GroupPaths& paths) {
  return Seconds(algorithm, CollectiveKind::kAllReduce, bytes, paths);
}

// The tolerance covers two times that are rounded up to picoseconds.
#define EXPECT_TIME(actual, expected) EXPECT_NEAR(actual, expected, 2.5e-12)

TEST(RoundsTime, RingAndHalvingDoublingInClosedForm) {
  const int64_t bytes = 1 << 20;
  for (const int64_t n : {2, 4, 8, 64, 256}) {
    const TestPaths paths(n);
    const double part = static_cast<double>(n - 1) / static_cast<double>(n) * static_cast<double>(bytes) / kBandwidth;
    const double steps = static_cast<double>(n - 1);
    const double rounds = std::log2(static_cast<double>(n));
    EXPECT_TIME(AllReduce("ring", bytes, paths), 2 * steps * kLatency + 2 * part);
    EXPECT_TIME(AllReduce("halving-doubling", bytes, paths), 2 * rounds * kLatency + 2 * part);
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
      EXPECT_TIME(Seconds("ring", kind, bytes, paths), steps * kLatency + part);
      EXPECT_TIME(Seconds("halving-doubling", kind, bytes, paths), rounds * kLatency + part);
      EXPECT_TIME(Seconds("direct", kind, bytes, paths), kLatency + part);
      EXPECT_TIME(Seconds("tree", kind, bytes, paths), steps * kLatency + part);
    }
    EXPECT_TIME(AllReduce("direct", bytes, paths), kLatency + steps * static_cast<double>(bytes) / kBandwidth);
  }
}

TEST(RoundsTime, AFoldedMemberTakesTheWholeBufferTwice) {
  // 6 = 4 + 2: members 0 and 1, and members 2 and 3, send each other the whole buffer before and after. The rest runs
  // on four members.
  const int64_t bytes = 1 << 20;
  const double whole = static_cast<double>(bytes) / kBandwidth;
  EXPECT_TIME(AllReduce("halving-doubling", bytes, TestPaths(6)), 6 * kLatency + 2 * whole + 1.5 * whole);
}

TEST(RoundsTime, TreeInClosedForm) {
  // Trees of height h = 3, 16 chunks per tree, 2h + 15 rounds. Chunk j moves up from depth d in round 3 - d + j and
  // down to depth d in round 2 + j + d. So the 3 levels of edges are used upwards in rounds 0-15, 1-16, 2-17 and
  // downwards in rounds 3-18, 4-19, 5-20. The member with the most messages in both trees together counts.
  const int64_t bytes = 32 * 1000;
  const double chunk = 1000 / kBandwidth;
  const double tree = AllReduce("tree", bytes, TestPaths(8));
  // In rounds 0 and 1 some members receive from the two leaves below them, and in round 1 other members also receive
  // from the two members below them. In rounds 5-15 a member has up to four messages.
  double messages = 0;
  const CollectiveTraffic traffic = (*FindCollective("tree"))->Traffic(8);
  for (const CollectiveStage& stage : traffic.stages) {
    std::vector<int> sent(8), received(8);
    for (const CollectiveExchange& exchange : stage.exchanges) {
      sent[exchange.source] += exchange.messages;
      received[exchange.destination] += exchange.messages;
    }
    int most = 0;
    for (int member = 0; member < 8; ++member) most = std::max({most, sent[member], received[member]});
    messages += static_cast<double>(stage.rounds) * most;
  }
  EXPECT_TIME(tree, 21 * kLatency + messages * chunk);
  // Lower bound: 2 log2 n latencies, and 2(n-1)/n of the buffer. Upper bound: 21 rounds, each with 4 messages of 1/32
  // of the buffer.
  const double whole = static_cast<double>(bytes) / kBandwidth;
  EXPECT_GE(tree, 6 * kLatency + 2 * whole * 7 / 8);
  EXPECT_LE(tree, 21 * kLatency + 2 * whole * 21 / 16);
}

TEST(RoundsTime, HierarchicalInClosedForm) {
  // 32 members in 4 nodes of 8. Inside a node there are 7 rounds, twice, with 4 messages of 1/32 each. Between nodes
  // there are 3 rounds, twice, in which 8 members send one message each through the node's bandwidth.
  const int64_t bytes = 32 * 100'000;
  TestPaths paths(32, 8);
  paths.outside = 4e9;
  paths.latency_outside = 10e-6;
  const double chunk = 100'000;
  EXPECT_TIME(AllReduce("hierarchical-8", bytes, paths),
              2 * 7 * (kLatency + 4 * chunk / kBandwidth) + 2 * 3 * (paths.latency_outside + 8 * chunk / 4e9));
  EXPECT_TIME(Seconds("hierarchical-8", CollectiveKind::kAllGather, bytes, paths),
              7 * (kLatency + 4 * chunk / kBandwidth) + 3 * (paths.latency_outside + 8 * chunk / 4e9));
  // Halving-doubling: members 1, 2 and 4 apart are on one node, members 8 and 16 apart on different nodes.
  EXPECT_TIME(AllReduce("halving-doubling", bytes, paths),
              2 * (3 * kLatency + 28 * chunk / kBandwidth) + 2 * (2 * paths.latency_outside + 8 * 3 * chunk / 4e9));
  // The ring is cut into eight rings, and each of them leaves a node at a different member. A member sends 7/8 of a
  // message inside the node, and at the same time its node sends one message out.
  EXPECT_TIME(AllReduce("ring", bytes, paths), 62 * (paths.latency_outside + 7 * chunk / 8 / kBandwidth));
  paths.outside = 0.5e9;
  EXPECT_TIME(AllReduce("ring", bytes, paths), 62 * (paths.latency_outside + chunk / 0.5e9));
}

TEST(RoundsTime, EveryOtherCountsWhatLeavesANode) {
  // 6 members in nodes of 4 and 2. A member of the first node sends 3 messages inside the node and 2 messages out of
  // it. The messages of all 4 members out of the node share the node's bandwidth.
  TestPaths paths(6, 4);
  paths.overhead = 1e-6;
  paths.outside = 2e9;
  const double bytes = 60'000;
  EXPECT_TIME(AllReduce("direct", 60'000, paths),
              kLatency + 3 * (1e-6 + bytes / kBandwidth) + 2 * (1e-6 + 4 * bytes / 2e9));
  // The same round, given as a list of messages, takes the same time.
  const CollectiveStage all = {.rounds = 1, .pattern = CollectiveStage::kEveryOther, .exchanges = {}};
  const CollectiveStage listed = {
      .rounds = 1, .pattern = CollectiveStage::kListed, .exchanges = StageExchanges(all, 6)};
  const RoundTime a = *StageRoundTime({.stage = all, .bytes = bytes}, paths);
  const RoundTime b = *StageRoundTime({.stage = listed, .bytes = bytes}, paths);
  EXPECT_NEAR(a.seconds, b.seconds, 1e-15);
  EXPECT_EQ(a.latency_seconds, b.latency_seconds);
}

TEST(RoundsTime, AnOverheadIsPerMessage) {
  // Each message is a chunk: halving-doubling sends 2(n-1) chunks, in fewer rounds.
  TestPaths paths(8);
  paths.overhead = 1e-6;
  EXPECT_TIME(AllReduce("halving-doubling", 0, paths), 6 * kLatency + 14 * 1e-6);
  EXPECT_TIME(AllReduce("ring", 0, paths), 14 * kLatency + 14 * 1e-6);
}

// With a link between every two members, a ring's messages use all links at once, and messages to several members move
// at the same time. The overheads of a member's messages still add up.
TEST(RoundsTime, LinksOfTheirOwnInClosedForm) {
  const int64_t bytes = 7 * 15 * (1 << 16);
  for (const int64_t n : {2, 3, 4, 8, 16}) {
    for (const double overhead : {0.0, 1e-6}) {
      TestPaths paths(n);
      paths.linked = true;
      paths.overhead = overhead;
      const double others = static_cast<double>(n - 1);
      const double chunk = std::ceil(static_cast<double>(bytes) / static_cast<double>(n));
      EXPECT_TIME(AllReduce("ring", bytes, paths), 2 * others * (kLatency + overhead) + 2 * chunk / kBandwidth);
      EXPECT_TIME(Seconds("direct", CollectiveKind::kAllGather, bytes, paths),
                  kLatency + others * overhead + chunk / kBandwidth);
      EXPECT_TIME(AllReduce("direct", bytes, paths),
                  kLatency + others * overhead + static_cast<double>(bytes) / kBandwidth);
    }
  }
  // With one partner in each round, only one link is used.
  TestPaths paths(8);
  paths.linked = true;
  EXPECT_TIME(AllReduce("halving-doubling", 1 << 20, paths), AllReduce("halving-doubling", 1 << 20, TestPaths(8)));
  // Rings over two nodes use each link once.
  TestPaths nodes(8, 4);
  nodes.outside = 1e15;
  const double chunk = (1 << 20) / 8.0;
  EXPECT_TIME(AllReduce("ring", 1 << 20, nodes), 14 * kLatency + 14 * chunk * 3 / 4 / kBandwidth);
  nodes.linked = true;
  EXPECT_TIME(AllReduce("ring", 1 << 20, nodes), 14 * kLatency + 14 * chunk / 4 / kBandwidth);
}

// 8 members on 4 nodes, two nodes to a place. Messages to the other place share the bandwidth of their place.
TEST(RoundsTime, PlacesInClosedForm) {
  const int64_t bytes = 1 << 20;
  TestPaths paths(8, 2);
  paths.nodes_of_place = 2;
  paths.outside = 2e9;
  const double all = static_cast<double>(bytes);
  for (const double above : {1e8, 1e9, 1e10}) {
    paths.above = above;
    // In a ring, one message leaves each place and each node. With "direct", each of the 4 members of a place sends 4
    // messages to the other place.
    EXPECT_TIME(AllReduce("ring", bytes, paths), 14 * kLatency + 14 * std::max(all / 8 / 2e9, all / 8 / above));
    EXPECT_TIME(AllReduce("direct", bytes, paths),
                kLatency + all / kBandwidth + std::max(6 * 2 * all / 2e9, 4 * 4 * all / above));
    paths.reduce_latency = 0;
    EXPECT_TIME(AllReduce("switch", bytes, paths), 3 * kLatency + std::max(all / kBandwidth, all / above));
  }
}

// Data moves up to the switch and down from it at the same time.
TEST(RoundsTime, SwitchesInClosedForm) {
  const int64_t bytes = 1 << 20;
  for (const int64_t n : {2, 4, 8, 64}) {
    TestPaths paths(n);
    const double all = static_cast<double>(bytes) / kBandwidth;
    const double others = static_cast<double>(n - 1);
    for (const double overhead : {0.0, 1e-6}) {
      paths.overhead = overhead;
      EXPECT_TIME(AllReduce("switch", bytes, paths), kLatency + overhead + all);
      for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
        EXPECT_TIME(Seconds("switch", kind, bytes, paths),
                    kLatency + others * overhead + others / static_cast<double>(n) * all);
      }
    }
  }
  const CollectiveCall call = {.kind = CollectiveKind::kAllReduce,
                               .algorithm = *FindCollective("switch"),
                               .parts = {{.elements = bytes, .element_bytes = 1}}};
  const TestPaths outside(8, /*inside=*/4);
  EXPECT_EQ(RoundsTime(CollectivePhases(call, 8), outside).status().message(), "several nodes");
}

// Data moves inside the nodes and between them at the same time. A node sends the sum of its members once, and receives
// the same number of bytes.
TEST(RoundsTime, SwitchesOverNodesInClosedForm) {
  const int64_t bytes = 1 << 20;
  const double all = static_cast<double>(bytes);
  for (const int64_t inside : {1, 2, 8}) {
    for (const int64_t nodes : {2, 4, 16}) {
      for (const double outside : {kBandwidth / 16, kBandwidth, 4 * kBandwidth}) {
        TestPaths paths(inside * nodes, inside);
        paths.outside = outside;
        paths.latency_outside = 5e-6;
        paths.reduce_latency = 1e-6;
        const double latency = 5e-6 + 1e-6 + (inside > 1 ? 2 * kLatency : 0);
        const double n = static_cast<double>(inside * nodes), g = static_cast<double>(inside);
        EXPECT_TIME(AllReduce("switch", bytes, paths),
                    latency + std::max(inside > 1 ? all / kBandwidth : 0, all / outside));
        for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
          EXPECT_TIME(Seconds("switch", kind, bytes, paths),
                      latency + std::max(inside > 1 ? (n - 1) / n * all / kBandwidth : 0, (n - g) / n * all / outside));
        }
      }
    }
  }
}

// No algorithm beats the bandwidth: 2(n-1)/n of the buffer leaves every member of an all-reduce, or the whole buffer
// once if a switch sums.
TEST(RoundsTime, NoneBeatsTheBandwidthAndMoreBytesTakeLonger) {
  for (const CollectiveEntry& entry : Collectives()) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const int64_t n : {2, 3, 6, 8, 12, 31}) {
        double before = 0;
        for (int64_t bytes = 1; bytes < (1 << 24); bytes = bytes * 3 + 1) {
          const double seconds = Seconds(std::string(entry.name), kind, bytes, TestPaths(n));
          const double part = static_cast<double>(n - 1) / static_cast<double>(n);
          const double times = kind != CollectiveKind::kAllReduce ? part : entry.in_switch() ? 1 : 2 * part;
          EXPECT_GE(seconds, times * static_cast<double>(bytes) / kBandwidth) << entry.name << " " << n << " " << bytes;
          EXPECT_GE(seconds, before) << entry.name << " " << n << " " << bytes;
          before = seconds;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::sim
