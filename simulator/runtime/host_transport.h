// Communication through host memory and sockets, as Gloo does it, instead of from device to device. What is sent, S
// bytes of a transfer, or s bytes that a rank sends in a collective, is moved by one thread; tensors are copied to host
// memory before and back behind it, those of a transfer as part of it, gradients by actions of their own
// (staged_sums.h):
//
//     transfer     max(time of the network, S / bytes_per_second) + latency_seconds + 2 S / host link
//     collective   max(k x time of the network, s / bytes_per_second) + rounds x latency_seconds
//
// k = sums of gradients that a rank may have under way: with communicators_by_stage as many as it has stages, else 1.
// As in equation 10 of the 4D paper the network is shared by counting, not by time; a network of flows, which shares by
// time, has k = 1. On one, what this is longer than the network's own time on idle links comes before the flow.
//
// host.transfer_seconds is added to every transfer, with host_transport or without.
#ifndef WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_
#define WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_

#include <memory>

#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "simulator/network/network_model.h"

namespace weft {

// `network` itself if the runtime has neither. `runtime` and `cluster` must outlive the model, which refuses to time
// transfers where copies are needed and the cluster has no host link.
std::unique_ptr<NetworkModel> ThroughHosts(const Runtime& runtime, const Program& program, const Cluster& cluster,
                                           std::unique_ptr<NetworkModel> network);

}  // namespace weft

#endif  // WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_
