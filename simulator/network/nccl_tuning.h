// Which algorithm and protocol NCCL chooses for a collective, and how long they take by NCCL's own model: time =
// latency + bytes / bandwidth. NCCL chooses the fastest that is possible.
//
// A ring of n ranks on N nodes takes 2(n-1) steps for an all-reduce and n-1 steps for other collectives. Of these,
// 2(N-1) or N-1 steps are between nodes ("crossing").
//     latency   = base + (steps - crossing) x hop inside + crossing x hop outside
//     bandwidth = bus x n / steps          bus = the bandwidth of a ring, minus the protocol's cost
// An all-reduce may use double binary trees, with g = n / N ranks on a node:
//     latency   = base + 2 (g-1) hop inside + 2 floor(log2 N) hop outside
//     bandwidth = bus / 2 x a correction by size
// If the switch of a node can sum ("NVLS"), an all-reduce may use it inside a node or with trees over nodes
// ("NVLSTree"):
//     latency   = hop inside + 2 floor(log2 N) hop outside
//     bandwidth = the smaller of: efficiency x (g-1) / g x the bandwidth of a device inside;
//                 the bandwidth of a node to other nodes, halved if there are more than two nodes
// If switches between nodes can sum (SHARP), an all-reduce may use them. Inside a node it then uses a chain of the
// node's ranks ("CollNetChain"), direct messages between all of them ("CollNetDirect", with NVLink), or the node's
// switch ("NVLS"):
//     latency   = chain: 2 (g-1) hop inside; direct: hop inside + (g-1) 0.4 us; NVLS: hop inside;  + hop outside
//     bandwidth = chain: 1/2 of a ring's inside; direct: g / (2 (g-1)) of a ring's inside, x 0.85 from capability 90;
//                 NVLS: as above;  at most the bandwidth of a node to other nodes, which each byte uses once
//
// Protocols: LL sends a flag with every 4 bytes, LL128 sends a flag with every 120 bytes, Simple waits for whole
// buffers. A protocol with a lower latency also has a lower bandwidth.
//
// Figures: NVIDIA NCCL, src/graph/tuning.cc and src/graph/topo.h (2.27; measured by NVIDIA), with these
// simplifications. A channel has the bandwidth of one NVLink (or one PCIe slot), so the number of channels is bus
// divided by that bandwidth. Hosts are Intel's. CollNet has enough channels to fill its interfaces. There is no PAT:
// all-gathers and reduce-scatters use the ring. The correction by size is interpolated linearly between its rows, so
// that time grows with size.
#ifndef WEFT_SIMULATOR_NETWORK_NCCL_TUNING_H_
#define WEFT_SIMULATOR_NETWORK_NCCL_TUNING_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "schedules/collective/plan.h"

namespace weft::sim {

enum class NcclAlgorithm { kTree, kRing, kCollNetDirect, kCollNetChain, kNvls, kNvlsTree };
enum class NcclProtocol { kLL, kLL128, kSimple };

// Return names as in NCCL_ALGO and NCCL_PROTO, e.g. "Tree" and "LL128".
absl::string_view NcclAlgorithmName(NcclAlgorithm algorithm);
absl::string_view NcclProtocolName(NcclProtocol protocol);

// The ranks of a communicator, with figures of the nodes that they are placed on.
struct NcclGroup {
  int64_t ranks = 1;
  int64_t nodes = 1;
  // Lowest compute capability of the devices, e.g. 80.
  int compute_capability = 0;
  // True if ranks of a node exchange data over NVLink, or if each node has only one rank; false for PCIe.
  bool nvlink = false;
  bool switch_reduces = false;
  // True if switches between the nodes sum (SHARP).
  bool fabric_reduces = false;
  // Bandwidth of a ring inside a node if the node has several ranks, and out of a node if there are several nodes. Both
  // are in bytes per second in each direction and belong to the slowest node.
  double inside_bytes_per_second = 0;
  double outside_bytes_per_second = 0;
};

// Returns the time, or nothing if the algorithm and protocol are not possible for the group. `bytes` is the size of the
// whole buffer: the input of a reduce-scatter, or the result of an all-gather. The group must have at least 2 ranks.
std::optional<double> NcclSeconds(NcclAlgorithm algorithm, NcclProtocol protocol, CollectiveKind kind, double bytes,
                                  const NcclGroup& group);

// Returns the fastest algorithm and protocol. If several are equally fast, returns the first in the order of the
// enumerations.
std::pair<NcclAlgorithm, NcclProtocol> NcclChoice(CollectiveKind kind, double bytes, const NcclGroup& group);

// The time for which a message keeps both of its ranks busy, and the time until it arrives after that. Messages up to
// 16 KiB use LL, others Simple.
struct NcclMessage {
  double seconds = 0;
  double latency_seconds = 0;
};
NcclMessage NcclSend(double bytes, double bytes_per_second, bool crosses, bool nvlink);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_NCCL_TUNING_H_
