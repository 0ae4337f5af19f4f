// Test fixture of the network model "flow": a cluster with round figures, and a mesh of one axis on it.
#ifndef WEFT_SIMULATOR_NETWORK_FLOW_TESTING_H_
#define WEFT_SIMULATOR_NETWORK_FLOW_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/network/network_model.h"

namespace weft::sim {

inline constexpr double kInside = 1e11, kInsideLatency = 1e-6, kInsideOverhead = 2e-6;
inline constexpr double kNic = 1e10, kNicLatency = 5e-6, kNicOverhead = 3e-6;

inline Cluster MakeCluster(int64_t nodes, int64_t devices, int64_t nics) {
  Cluster cluster;
  cluster.set_nodes(nodes);
  cluster.set_devices_per_node(devices);
  cluster.set_nics_per_node(nics);
  cluster.mutable_intra_node()->set_bytes_per_second(kInside);
  cluster.mutable_intra_node()->set_latency_seconds(kInsideLatency);
  cluster.mutable_intra_node()->set_overhead_seconds(kInsideOverhead);
  cluster.mutable_inter_node()->set_bytes_per_second(kNic);
  cluster.mutable_inter_node()->set_latency_seconds(kNicLatency);
  cluster.mutable_inter_node()->set_overhead_seconds(kNicOverhead);
  return cluster;
}

class FlowTest : public ::testing::Test {
 protected:
  void Make(int64_t ranks, const Cluster& cluster) {
    cluster_ = cluster;
    mesh_.Clear();
    mesh_.add_axes()->set_name("data");
    mesh_.mutable_axes(0)->set_size(ranks);
    network_ = (*FindNetworkModel("flow"))->make(mesh_, cluster_);
    analytic_ = (*FindNetworkModel("analytic"))->make(mesh_, cluster_);
  }

  static CollectiveCall Call(const std::string& algorithm, CollectiveKind kind, int64_t elements) {
    return {
        .kind = kind, .algorithm = *FindCollective(algorithm), .parts = {{.elements = elements, .element_bytes = 4}}};
  }
  static std::vector<int64_t> Members(int64_t n, int64_t first = 0, int64_t stride = 1) {
    std::vector<int64_t> members;
    for (int64_t i = 0; i < n; ++i) members.push_back(first + i * stride);
    return members;
  }
  Flow FlowOf(const CollectiveCall& call, const std::vector<int64_t>& members) {
    const auto flow = network_->CollectiveFlow(call, {}, members);
    EXPECT_TRUE(flow.ok()) << flow.status();
    return flow.value_or(Flow{});
  }
  TransferTime TimeOf(const CollectiveCall& call, const std::vector<int64_t>& members) {
    const auto time = network_->Collective(call, {}, members);
    EXPECT_TRUE(time.ok()) << time.status();
    return time.value_or(TransferTime{});
  }

  Mesh mesh_;
  Cluster cluster_;
  std::unique_ptr<NetworkModel> network_;
  std::unique_ptr<NetworkModel> analytic_;
};

// Allows an error of 1 ps, 2 ps for each phase, and 10^-9 of `expected` for rates rounded to whole bytes per second.
inline void ExpectSeconds(Time time, double expected, int64_t phases = 1) {
  EXPECT_NEAR(static_cast<double>(time.ps), expected * 1e12, 1 + 2.0 * static_cast<double>(phases) + expected * 1e3);
}

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_FLOW_TESTING_H_
