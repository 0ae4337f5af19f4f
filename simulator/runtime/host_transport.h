// Communication through host memory and sockets, as Gloo does it, instead of from device to device. One thread moves
// the S bytes of a transfer, or the s bytes that a rank sends in a collective. Tensors are copied to host memory before
// that and back afterwards. Separate actions copy gradients (staged_sums.cc). Threads copy the tensors of transfers on
// the stream on which the rank computes, so the action that reads or makes them takes S / (bandwidth of the host link)
// longer (runtime_steps.h):
//
//     transfer     max(time of the network, S / bytes_per_second) + latency_seconds
//     collective   max(k x time of the network, s / bytes_per_second) + rounds x latency_seconds
//
// k is the number of gradient sums that a rank may have in flight: the number of its stages with
// communicators_by_stage, else 1. As in equation 10 of the 4D paper, each sum gets 1/k of the network all the time. A
// network of flows shares its links only while flows are in flight, so it has k = 1. There, any additional time comes
// before the flow.
//
// host.transfer_seconds is added to every transfer, with or without host_transport.
#ifndef WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_
#define WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_

#include <cstdint>
#include <map>
#include <memory>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "simulator/network/network_model.h"

namespace weft::sim {

// Returns `network` itself if the runtime has neither host_transport nor host.transfer_seconds. `runtime` must outlive
// the model.
std::unique_ptr<NetworkModel> ThroughHosts(const Runtime& runtime, const Program& program,
                                           std::unique_ptr<NetworkModel> network);

// Returns, by segment, the bytes of messages that an action with the segment reads from other ranks and makes for other
// ranks. If such actions differ, the largest number counts.
std::map<int32_t, int64_t> MessageBytesOfSegments(const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_HOST_TRANSPORT_H_
