// Compares the bandwidths that groups have on shared links with a count over all members of all groups. The links are
// interfaces, the PCIe ports and bridges on the way to the interfaces, and the oversubscribed leaves above them.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/network/placed_links.h"

namespace weft::sim {
namespace {

constexpr int64_t kRanks = 24, kNodes = 8, kDevices = 3;
constexpr double kInterface = 10;  // GB/s, like all bandwidths here.

// A random machine of eight nodes with three devices each.
struct Machine {
  int64_t interfaces = 1;
  // Bandwidths of a device's PCIe port, and of the bridges above the first two devices and above the third one. 0 = the
  // machine has none.
  double port = 0, bridge = 0;
  // FabricKind_Name ("" = no fabric), and the number of nodes in a place.
  std::string fabric;
  int64_t nodes_per_place = kNodes;
  double oversubscription = 1;
  std::vector<int64_t> devices;  // By rank; empty = in rank order.

  std::string Text() const {
    std::string text = "name: 'c' nodes: 8 devices_per_node: 3 nics_per_node: " + std::to_string(interfaces) +
                       " inter_node { bytes_per_second: 10e9 } intra_node { bytes_per_second: " +
                       std::to_string(port > 0 ? port : 100) + "e9 " + (port > 0 ? "kind: PCIE }" : "}");
    if (bridge > 0) {
      text += " node_links { devices_per_bridge: 2 bridge { bytes_per_second: " + std::to_string(bridge) + "e9 } }";
    }
    if (!fabric.empty()) {
      text += " fabric { kind: " + fabric + " nodes_per_switch: " + std::to_string(nodes_per_place) +
              " oversubscription: " + std::to_string(oversubscription) + " }";
    }
    std::string places;
    for (const int64_t device : devices) places += " devices_of_ranks: " + std::to_string(device);
    return places.empty() ? text : text + " placement {" + places + " }";
  }
};

Machine Draw(std::mt19937& random) {
  Machine machine;
  machine.interfaces = 1 + static_cast<int64_t>(random() % 3);
  if (random() % 2 == 0) machine.port = random() % 2 == 0 ? 4 : 12;
  if (random() % 2 == 0) machine.bridge = random() % 2 == 0 ? 3 : 8;
  if (random() % 4 != 0) {
    machine.fabric = std::vector<std::string>{"FAT_TREE", "RAIL_OPTIMISED", "DRAGONFLY"}[random() % 3];
    machine.nodes_per_place = 2 + static_cast<int64_t>(random() % 2);
    machine.oversubscription = std::vector<double>{1, 1.75, 4, 8}[random() % 4];
  }
  if (random() % 2 == 0) {
    for (int64_t device = 0; device < kRanks; ++device) machine.devices.push_back(device);
    std::shuffle(machine.devices.begin(), machine.devices.end(), random);
  }
  return machine;
}

GroupForm DrawForm(std::mt19937& random) {
  GroupForm form(3);
  for (int axis = 0; axis < 3; ++axis) {
    form[axis].kind = static_cast<AxisPart::Kind>(random() % 5);
    if (form[axis].kind == AxisPart::kListed) {
      form[axis].listed = axis == 1 ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1};
    }
    if (form[axis].kind >= AxisPart::kBlock) form[axis].size = axis == 2 ? 3 : 2;
  }
  return form;
}

// The links that a message passes, by name, each with its bandwidth.
using Way = std::map<std::string, double>;

class Counted {
 public:
  explicit Counted(const Machine& machine) : machine_(machine) {}

  int64_t DeviceOf(int64_t rank) const { return machine_.devices.empty() ? rank : machine_.devices[rank]; }
  int64_t NodeOf(int64_t rank) const { return DeviceOf(rank) / kDevices; }
  int64_t PlaceOf(int64_t rank) const { return NodeOf(rank) / machine_.nodes_per_place; }

  // Returns the links from the device of `rank` to its interface.
  Way OutOfNode(int64_t rank) const {
    const std::string node = std::to_string(NodeOf(rank));
    const int64_t device = DeviceOf(rank) % kDevices, interface = InterfaceOf(device);
    Way way = {{node + " interface " + std::to_string(interface), kInterface}};
    if (machine_.port > 0) way[node + " port " + std::to_string(device)] = machine_.port;
    int64_t first = 0;
    while (InterfaceOf(first) != interface) ++first;
    if (machine_.bridge > 0 && first / 2 != device / 2) {
      way[node + " out of bridge " + std::to_string(device / 2)] = machine_.bridge;
      way[node + " into bridge " + std::to_string(first / 2)] = machine_.bridge;
    }
    return way;
  }

  Way OutOfPlace(int64_t rank) const {
    const bool rails = machine_.fabric == "RAIL_OPTIMISED";
    const int64_t leaf = rails ? InterfaceOf(DeviceOf(rank) % kDevices) : 0;
    const int64_t below = machine_.nodes_per_place * (rails ? 1 : machine_.interfaces);
    return {{std::to_string(PlaceOf(rank)) + " leaf " + std::to_string(leaf),
             static_cast<double>(below) * kInterface / machine_.oversubscription}};
  }

 private:
  int64_t InterfaceOf(int64_t device) const { return device * machine_.interfaces / kDevices; }

  const Machine& machine_;
};

Mesh MakeMesh() {
  Mesh mesh;
  for (const int64_t size : {2, 4, 3}) {
    mesh.add_axes()->set_name(std::string(1, static_cast<char>('a' + mesh.axes_size())));
    mesh.mutable_axes(mesh.axes_size() - 1)->set_size(size);
  }
  return mesh;
}

// Checks the bandwidth of every group that has members in several parts of the machine (a part is a node or a place),
// for the members in each part. Returns how many members have less bandwidth than they would have alone.
template <typename Part, typename Leaving, typename Reported>
int Compare(const Mesh& mesh, const GroupForm& form, Part part, Leaving leaving, Reported reported) {
  const auto beside = [&](int64_t rank) {
    std::vector<int64_t> ranks;
    for (const int64_t member : FormMembers(mesh, rank, form)) {
      if (part(member) == part(rank)) ranks.push_back(member);
    }
    return ranks;
  };
  std::vector<int64_t> leave;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    if (TakesPart(form, RankCoordinates(mesh, rank)) && beside(rank).size() < FormMembers(mesh, rank, form).size()) {
      leave.push_back(rank);
    }
  }
  // For each link: the fraction of a group's traffic out of the part that this link carries, summed over the groups.
  std::map<std::string, double> used;
  for (const int64_t rank : leave) {
    for (const auto& [link, carries] : leaving(rank)) used[link] += 1.0 / static_cast<double>(beside(rank).size());
  }
  int less = 0;
  for (const int64_t rank : leave) {
    double least = 1e9, alone = 1e9;
    for (const int64_t member : beside(rank)) {
      std::map<std::string, double> own;
      for (const int64_t other : beside(rank)) {
        for (const auto& [link, carries] : leaving(other)) own[link] += 1.0 / static_cast<double>(beside(rank).size());
      }
      for (const auto& [link, carries] : leaving(member)) {
        least = std::min(least, carries / used[link]);
        alone = std::min(alone, carries / own[link]);
      }
    }
    EXPECT_NEAR(reported(beside(rank)), least, least * 1e-8) << "rank " << rank;
    less += least < alone * 0.99;
  }
  return less;
}

TEST(PlacedLinksSharing, RandomPlacementsAndGroups) {
  const Mesh mesh = MakeMesh();
  int shared_ways = 0, shared_leaves = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const Machine machine = Draw(random);
    const GroupForm form = DrawForm(random);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << machine.Text());
    Cluster cluster;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(machine.Text(), &cluster));
    const PlacedLinks links(mesh, cluster);
    const Counted counted(machine);
    shared_ways += Compare(
        mesh, form, [&](int64_t rank) { return counted.NodeOf(rank); },
        [&](int64_t rank) { return counted.OutOfNode(rank); },
        [&](const std::vector<int64_t>& ranks) {
          const auto bandwidth = links.NodeBandwidth(ranks, &form);
          EXPECT_TRUE(bandwidth.ok()) << bandwidth.status();
          return bandwidth.value_or(0) / 1e9;
        });
    EXPECT_EQ(links.HasNarrowPlaces(), machine.oversubscription > 1);
    if (!links.HasNarrowPlaces()) continue;
    shared_leaves += Compare(
        mesh, form, [&](int64_t rank) { return counted.PlaceOf(rank); },
        [&](int64_t rank) { return counted.OutOfPlace(rank); },
        [&](const std::vector<int64_t>& ranks) { return links.PlaceBandwidth(ranks, &form) / 1e9; });
    if (HasFailure()) return;
  }
  EXPECT_GT(shared_ways, 100);
  EXPECT_GT(shared_leaves, 100);
}

}  // namespace
}  // namespace weft::sim
