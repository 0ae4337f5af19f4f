#include "simulator/testing/random_cluster.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace weft::sim {
namespace {

class ClusterMaker {
 public:
  ClusterMaker(uint64_t seed, int64_t ranks, bool load) : random_(seed), ranks_(ranks) {
    cluster_.set_name("random " + std::to_string(seed));
    cluster_.set_devices_per_node(1 + Below(4));
    const int64_t least = (ranks + cluster_.devices_per_node() - 1) / cluster_.devices_per_node();
    // The cluster may have more nodes than the ranks need.
    cluster_.set_nodes(least + Below(3));
    FillDevice(*cluster_.mutable_device(), load);
    FillLink(*cluster_.mutable_intra_node(), Below(2) == 0 ? NVLINK : PCIE);
    FillLink(*cluster_.mutable_inter_node(), NETWORK);
    FillLink(*cluster_.mutable_host(), PCIE);
    cluster_.set_nics_per_node(1 + Below(cluster_.devices_per_node() + 1));
    if (Below(4) == 0) {
      cluster_.set_compute_slots_per_node(1 + Below(cluster_.devices_per_node()));
      cluster_.set_compute_turn_seconds(1e-9 * static_cast<double>(Below(3) * 1000));
    }
    FillNodeLinks();
    FillFabric();
  }

  void AddOtherDevices() {
    OtherDevices& row = *cluster_.add_other_devices();
    if (Below(4) > 0) row.add_nodes(Below(cluster_.nodes()));
    if (Below(2) == 0) row.add_devices(Below(cluster_.devices_per_node()));
    if (Below(3) == 0) FillDevice(*row.mutable_device(), cluster_.device().has_communication_load());
    const double speeds[] = {0, 0.5, 0.75, 0.9, 1.2};
    row.set_speed(speeds[Below(5)]);
  }

  // Interface 0 of a node never goes down, so that every rank can reach every other.
  void AddOtherInterfaces(bool may_be_down) {
    OtherInterfaces& row = *cluster_.add_other_interfaces();
    row.add_nodes(Below(cluster_.nodes()));
    const bool one = cluster_.nics_per_node() > 1;
    if (one) row.add_interfaces(1 + Below(cluster_.nics_per_node() - 1));
    if (one && may_be_down && Below(2) == 0) {
      row.set_down(true);
    } else {
      row.set_fraction(Below(2) == 0 ? 0.5 : 0.25);
    }
  }

  void Place() {
    Placement& placement = *cluster_.mutable_placement();
    const int64_t per_node = cluster_.devices_per_node();
    if (Below(2) == 0) {
      std::vector<int64_t> devices(cluster_.nodes() * per_node);
      std::iota(devices.begin(), devices.end(), 0);
      Shuffle(devices);
      placement.mutable_devices_of_ranks()->Add(devices.begin(), devices.begin() + ranks_);
      return;
    }
    std::vector<int64_t> nodes(cluster_.nodes());
    std::iota(nodes.begin(), nodes.end(), 0);
    Shuffle(nodes);
    // Use either enough of the nodes, with all their devices, or all nodes with all devices except one, if these are
    // enough.
    const int64_t least = (ranks_ + per_node - 1) / per_node;
    const bool fewer = per_node > 1 && Below(2) == 0 && cluster_.nodes() * (per_node - 1) >= ranks_;
    if (fewer) {
      const int64_t without = Below(per_node);
      for (int64_t device = per_node - 1; device >= 0; --device) {
        if (device != without) placement.add_devices(device);
      }
    } else {
      nodes.resize(least + Below(cluster_.nodes() - least + 1));
    }
    placement.mutable_nodes()->Add(nodes.begin(), nodes.end());
  }

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  Cluster Take() { return cluster_; }

 private:
  void FillDevice(Device& device, bool load) {
    device.set_name("device " + std::to_string(Below(1000)));
    device.set_memory_bytes(int64_t{1} << 40);
    device.set_memory_bytes_per_second(1e12 * static_cast<double>(1 + Below(3)));
    device.set_launch_seconds(Below(2) == 0 ? 0 : 1e-7);
    device.set_compute_capability(80);
    for (const DType dtype : {FP32, BF16, FP16, FP64}) {
      Peak& peak = *device.add_peaks();
      peak.set_dtype(dtype);
      peak.set_flops_per_second(1e12 * static_cast<double>(1 + Below(2)));
    }
    if (!load) return;
    TileFigures& tiles = *device.mutable_tiles();
    tiles.set_multiprocessors(8);
    tiles.set_attention_rows(64);
    tiles.set_attention_fraction(0.5);
    tiles.set_attention_backward_fraction(0.5);
    tiles.set_memory_fraction(0.5);
    Tile& tile = *tiles.add_tiles();
    tile.set_rows(64);
    tile.set_columns(64);
    tile.set_fraction(0.5);
    device.mutable_communication_load()->set_multiprocessors(static_cast<int32_t>(Below(4)));
    device.mutable_communication_load()->set_memory_bytes_per_second(1e11 * static_cast<double>(Below(5)));
  }

  void FillLink(Link& link, LinkKind kind) {
    link.set_kind(kind);
    link.set_bytes_per_second(1e9 * static_cast<double>(1 + Below(4)));
    link.set_latency_seconds(1e-7 * static_cast<double>(Below(3)));
    link.set_overhead_seconds(1e-7 * static_cast<double>(Below(2)));
  }

  void FillNodeLinks() {
    const int64_t devices = cluster_.devices_per_node();
    const uint64_t kind = Below(4);
    if (kind == 0 || devices == 1) return;
    NodeLinks& links = *cluster_.mutable_node_links();
    if (kind == 1) links.set_all_pairs(true);
    if (kind == 2) {
      DirectLink& direct = *links.add_direct();
      direct.set_first(0);
      direct.set_second(devices - 1);
      FillLink(*direct.mutable_link(), NVLINK);
    }
    if (kind == 3) {
      links.set_devices_per_bridge(devices % 2 == 0 ? 2 : devices);
      FillLink(*links.mutable_bridge(), PCIE);
    }
  }

  void FillFabric() {
    Fabric& fabric = *cluster_.mutable_fabric();
    switch (Below(6)) {
      case 0:
        fabric.set_kind(FAT_TREE);
        break;
      case 1:
        fabric.set_kind(RAIL_OPTIMISED);
        break;
      case 2:
        fabric.set_kind(DRAGONFLY);
        break;
      case 3:
        fabric.set_kind(TORUS);
        fabric.add_torus(cluster_.nodes());
        return;
      default:
        cluster_.clear_fabric();
        return;
    }
    fabric.set_nodes_per_switch(1 + Below(3));
    const double oversubscriptions[] = {0, 1, 2, 3};
    fabric.set_oversubscription(oversubscriptions[Below(4)]);
    fabric.set_hop_latency_seconds(1e-7 * static_cast<double>(Below(2)));
  }

  void Shuffle(std::vector<int64_t>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[Below(i)]);
  }

  std::mt19937_64 random_;
  const int64_t ranks_;
  Cluster cluster_;
};

}  // namespace

Cluster RandomCluster(uint64_t seed, int64_t ranks, Wear wear, bool load) {
  ClusterMaker maker(seed, ranks, load);
  if (wear == Wear::kNearly) {
    switch (maker.Below(3)) {
      case 0:
        maker.AddOtherDevices();
        break;
      case 1:
        maker.AddOtherInterfaces(/*may_be_down=*/false);
        break;
      default:
        maker.Place();
    }
  }
  if (wear == Wear::kDegraded) {
    for (uint64_t i = maker.Below(3); i <= 2; ++i) maker.AddOtherDevices();
    for (uint64_t i = maker.Below(3); i <= 2; ++i) maker.AddOtherInterfaces(/*may_be_down=*/true);
    if (maker.Below(2) == 0) maker.Place();
  }
  return maker.Take();
}

}  // namespace weft::sim
