// Communication through host memory and sockets, as Gloo does it, instead of from device to device. What is sent, S
// bytes of a transfer, or s bytes that a rank sends in a collective, is moved by one thread; tensors are copied to host
// memory before and back behind it, gradients by actions of their own (staged_sums.h). Those of transfers are copied by
// threads on the stream on which the rank computes, so the action that reads or makes them takes S / host link longer
// (runtime_steps.h):
//
//     transfer     max(time of the network, S / bytes_per_second) + latency_seconds
//     collective   max(k x time of the network, s / bytes_per_second) + rounds x latency_seconds
//
// k = sums of gradients that a rank may have under way: with communicators_by_stage as many as it has stages, else 1.
// As in equation 10 of the 4D paper the network is shared by counting, not by time; a network of flows, which shares by
// time, has k = 1. On one, what this is longer than the network's own time on idle links comes before the flow.
//
// host.transfer_seconds is added to every transfer, with host_transport or without.
#ifndef WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_
#define WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_

#include <cstdint>
#include <map>
#include <memory>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "simulator/network/network_model.h"

namespace weft::sim {

// `network` itself if the runtime has neither. `runtime` must outlive the model.
std::unique_ptr<NetworkModel> ThroughHosts(const Runtime& runtime, const Program& program,
                                           std::unique_ptr<NetworkModel> network);

// By segment, of messages that an action with it reads from others and makes for others; of actions that differ, the
// most.
std::map<int32_t, int64_t> MessageBytesOfSegments(const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_
