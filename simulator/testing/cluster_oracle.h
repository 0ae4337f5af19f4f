// An independent implementation of the rules in docs/program.md and proto/cluster.proto about machines: which device
// each rank is on, how fast the device is, and so how long everything takes. Times of single steps and messages come
// from the cost and network models, which have tests of their own.
#ifndef WEFT_SIMULATOR_TESTING_CLUSTER_ORACLE_H_
#define WEFT_SIMULATOR_TESTING_CLUSTER_ORACLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "simulator/naive/naive_simulator.h"
#include "simulator/network/network_model.h"

namespace weft::sim {

// Returns, for every rank, node * devices_per_node + device in the node, as Cluster.placement states.
std::vector<int64_t> DevicesOfRanks(const Cluster& cluster, int64_t ranks);

// Returns the durations of a program; the cluster must have all figures for it. All arguments must outlive the result.
NaiveDurations ClusterDurations(const Program& program, const Cluster& cluster, const std::string& cost,
                                const NetworkModel& network);

// Returns options with the nodes and slots of the cluster.
NaiveOptions ClusterOptions(const Program& program, const Cluster& cluster, int repetitions);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_TESTING_CLUSTER_ORACLE_H_
