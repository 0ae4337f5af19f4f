// If a link of a cluster becomes slower, fails or has more users, no transfer and no collective becomes faster. The
// tests check this on every network that models links, over all kinds of nodes and fabrics.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/network/network_model.h"

namespace weft::sim {
namespace {

const AxisPart kOwn;
const AxisPart kAll = {.kind = AxisPart::kAll, .size = 0, .listed = {}};

Cluster MakeCluster(const std::string& text) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'c' nodes: 4 devices_per_node: 4 device { compute_capability: 80 } "
      "intra_node { bytes_per_second: 80e9 latency_seconds: 2e-6 kind: NVLINK } "
      "inter_node { bytes_per_second: 10e9 latency_seconds: 5e-6 }",
      &cluster));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &cluster)) << text;
  return cluster;
}

std::string Direct(int first, int second) {
  return "direct { first: " + std::to_string(first) + " second: " + std::to_string(second) +
         " link { bytes_per_second: 160e9 latency_seconds: 2e-6 kind: NVLINK } } ";
}

std::vector<Cluster> Machines() {
  const std::string node = "nics_per_node: 4 ";
  std::vector<Cluster> machines;
  for (const std::string& text : std::vector<std::string>{
           // Kinds of nodes.
           node, "nics_per_node: 2", "nics_per_node: 1", "nics_per_node: 6", node + "node_links { all_pairs: true }",
           node + "node_links { " + Direct(0, 1) + Direct(2, 3) + "}",
           node + "node_links { " + Direct(0, 1) + Direct(1, 2) + Direct(2, 3) + Direct(0, 3) + "}",
           "nics_per_node: 2 intra_node { kind: PCIE bytes_per_second: 12e9 } "
           "node_links { devices_per_bridge: 2 bridge { bytes_per_second: 14e9 } }",
           "nics_per_node: 1 intra_node { kind: PCIE bytes_per_second: 12e9 } "
           "node_links { devices_per_bridge: 2 bridge { bytes_per_second: 9e9 } " +
               Direct(0, 1) + Direct(2, 3) + "}",
           // Kinds of fabrics.
           node + "fabric { kind: FAT_TREE nodes_per_switch: 2 oversubscription: 1 hop_latency_seconds: 1e-7 }",
           node + "fabric { kind: FAT_TREE nodes_per_switch: 2 oversubscription: 4 hop_latency_seconds: 1e-7 }",
           // This fabric has no hop latency: otherwise a device that uses another device's interface may move to that
           // device's rail and save hops.
           node + "fabric { kind: RAIL_OPTIMISED nodes_per_switch: 2 oversubscription: 2 }",
           node + "fabric { kind: DRAGONFLY nodes_per_switch: 2 oversubscription: 1.75 hop_latency_seconds: 1e-7 }",
           "nics_per_node: 1 fabric { kind: TORUS torus: [ 2, 2 ] hop_latency_seconds: 1e-7 }",
           // A placement that returns to each node several times in rank order.
           node + "placement { devices_of_ranks: [ 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15 ] }"}) {
    machines.push_back(MakeCluster(text));
  }
  return machines;
}

struct Worn {
  std::string how;
  Cluster cluster;
};

// Returns lists of worn clusters. In each list, every cluster is worse than the one before it, and the first one is
// worse than `cluster`.
std::vector<std::vector<Worn>> WornBySteps(const Cluster& cluster) {
  std::vector<std::vector<Worn>> all;
  for (int64_t i = 0; i < cluster.nics_per_node(); ++i) {
    std::vector<Worn> steps;
    for (const double fraction : {0.5, 0.25}) {
      Worn worn = {"interface " + std::to_string(i) + " slow", cluster};
      OtherInterfaces* row = worn.cluster.add_other_interfaces();
      row->add_nodes(1);
      row->add_interfaces(i);
      row->set_fraction(fraction);
      steps.push_back(worn);
    }
    all.push_back(steps);
    if (cluster.nics_per_node() < 2) continue;
    Worn down = {"interface " + std::to_string(i) + " down", cluster};
    OtherInterfaces* row = down.cluster.add_other_interfaces();
    row->add_nodes(1);
    row->add_interfaces(i);
    row->set_down(true);
    all.push_back({down});
  }
  const auto halve = [&](const std::string& how, const auto& link) {
    Worn worn = {how, cluster};
    Link* changed = link(worn.cluster);
    changed->set_bytes_per_second(changed->bytes_per_second() / 2);
    all.push_back({worn});
  };
  halve("links of nodes at half", [](Cluster& worn) { return worn.mutable_intra_node(); });
  halve("links between nodes at half", [](Cluster& worn) { return worn.mutable_inter_node(); });
  halve("bridges at half", [](Cluster& worn) { return worn.mutable_node_links()->mutable_bridge(); });
  for (int i = 0; i < cluster.node_links().direct_size(); ++i) {
    halve("a direct link at half",
          [&](Cluster& worn) { return worn.mutable_node_links()->mutable_direct(i)->mutable_link(); });
    Worn gone = {"a direct link gone", cluster};
    gone.cluster.mutable_node_links()->mutable_direct()->DeleteSubrange(i, 1);
    all.back().push_back(gone);
  }
  if (cluster.fabric().nodes_per_switch() > 0) {
    std::vector<Worn> steps;
    for (const double more : {2, 4, 16}) {
      Worn worn = {"fewer links up", cluster};
      worn.cluster.mutable_fabric()->set_oversubscription(more * cluster.fabric().oversubscription());
      steps.push_back(worn);
    }
    all.push_back(steps);
  }
  return all;
}

Mesh SquareMesh() {
  Mesh mesh;
  for (const char* name : {"a", "b"}) {
    mesh.add_axes()->set_name(name);
    mesh.mutable_axes(mesh.axes_size() - 1)->set_size(4);
  }
  return mesh;
}

// Returns the times of collectives and transfers, always in the same order.
std::vector<std::pair<std::string, int64_t>> Times(const std::string& network, const Cluster& cluster) {
  const Mesh mesh = SquareMesh();
  const std::unique_ptr<NetworkModel> model = (*FindNetworkModel(network))->make(mesh, cluster);
  std::vector<std::pair<std::string, int64_t>> times;
  const auto note = [&](const std::string& what, const absl::StatusOr<TransferTime>& time) {
    EXPECT_TRUE(time.ok()) << what << time.status();
    if (time.ok()) times.emplace_back(what, time->occupancy.ps + time->latency.ps);
  };
  for (const GroupForm& form : {GroupForm{kAll, kOwn}, GroupForm{kOwn, kAll}, GroupForm{kAll, kAll},
                                GroupForm{kOwn, {.kind = AxisPart::kBlock, .size = 2, .listed = {}}}}) {
    for (const CollectiveEntry& algorithm : Collectives()) {
      if (algorithm.in_switch() || algorithm.name == "hierarchical" || algorithm.name == "hierarchical-8") continue;
      for (int64_t rank = 0; rank < 16; ++rank) {
        const std::vector<int64_t> members = FormMembers(mesh, rank, form);
        if (members.front() != rank) continue;
        for (const int64_t bytes : {int64_t{1} << 12, int64_t{48} << 20}) {
          // NCCL chooses without regard to the groups that share its interfaces. If the interfaces are slower, its
          // choice for a few bytes may be a better one.
          if (network == "nccl" && bytes < (1 << 20)) continue;
          note(std::string(algorithm.name) + " from " + std::to_string(rank) + " of " + std::to_string(members.size()),
               model->Collective({.kind = CollectiveKind::kAllReduce,
                                  .algorithm = &algorithm,
                                  .parts = {{.elements = bytes, .element_bytes = 1}}},
                                 form, members));
        }
      }
    }
  }
  for (int64_t from = 0; from < 16; ++from) {
    for (const int64_t by : {1, 4, 5}) {
      const int64_t to = (from + by) % 16;
      note("transfer from " + std::to_string(from) + " to " + std::to_string(to), model->Transfer(from, to, 1 << 22));
    }
  }
  return times;
}

class EachNetwork : public testing::TestWithParam<const char*> {};

TEST_P(EachNetwork, WornLinksMakeNothingFaster) {
  for (const Cluster& machine : Machines()) {
    const auto whole = Times(GetParam(), machine);
    ASSERT_FALSE(whole.empty());
    for (const std::vector<Worn>& steps : WornBySteps(machine)) {
      std::vector<std::pair<std::string, int64_t>> before = whole;
      for (const Worn& worn : steps) {
        const auto times = Times(GetParam(), worn.cluster);
        ASSERT_EQ(times.size(), before.size());
        for (size_t i = 0; i < times.size(); ++i) {
          // Bandwidths of flows are whole bytes per second, and times are rounded up.
          EXPECT_GE(static_cast<double>(times[i].second), static_cast<double>(before[i].second) * (1 - 1e-8))
              << times[i].first << ": " << worn.how << "\n"
              << machine.ShortDebugString();
        }
        before = times;
        if (HasFailure()) return;
      }
    }
  }
}

// Each device has an interface. If one interface is down, its device shares the interface of another device. All groups
// together then take at least as long as with that interface at half speed. ("flow" shares links between the messages
// in flight, so the time of one collective does not show this.)
TEST(WornLinks, AnInterfaceThatIsDownIsNoBetterThanAtHalf) {
  const auto slowest = [](const std::string& network, const Cluster& cluster, const GroupForm& form) {
    const Mesh mesh = SquareMesh();
    const std::unique_ptr<NetworkModel> model = (*FindNetworkModel(network))->make(mesh, cluster);
    double seconds = 0;
    for (int64_t rank = 0; rank < 16; ++rank) {
      const auto time = model->Collective({.kind = CollectiveKind::kAllReduce,
                                           .algorithm = *FindCollective("ring"),
                                           .parts = {{.elements = int64_t{48} << 20, .element_bytes = 1}}},
                                          form, FormMembers(mesh, rank, form));
      EXPECT_TRUE(time.ok()) << time.status();
      if (time.ok()) seconds = std::max(seconds, ToSeconds(time->occupancy));
    }
    return seconds;
  };
  for (const Cluster& machine : Machines()) {
    if (machine.nics_per_node() != machine.devices_per_node()) continue;
    for (int64_t interface = 0; interface < 4; ++interface) {
      Cluster half = machine, down = machine;
      for (Cluster* worn : {&half, &down}) {
        worn->add_other_interfaces()->add_nodes(1);
        worn->mutable_other_interfaces(0)->add_interfaces(interface);
      }
      half.mutable_other_interfaces(0)->set_fraction(0.5);
      down.mutable_other_interfaces(0)->set_down(true);
      for (const char* network : {"analytic", "nccl"}) {
        for (const GroupForm& form : {GroupForm{kAll, kOwn}, GroupForm{kOwn, kAll}, GroupForm{kAll, kAll}}) {
          EXPECT_GE(slowest(network, down, form), slowest(network, half, form) * (1 - 1e-8))
              << network << ", interface " << interface << "\n"
              << machine.ShortDebugString();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, EachNetwork, testing::Values("analytic", "nccl", "flow"),
                         [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::sim
