// Which algorithm and protocol NCCL takes for a collective, and how long it then takes by NCCL's own model of them:
// time = latency + bytes / bandwidth, the least over what is possible.
//
// A ring of n ranks on N nodes takes 2(n-1) steps for an all-reduce, n-1 for the others; 2(N-1) or N-1 of them cross.
//     latency   = base + (steps - crossing) x hop inside + crossing x hop outside
//     bandwidth = bus x n / steps          bus = what a ring carries, less what the protocol costs
// An all-reduce may go by double binary trees, with g = n / N ranks on a node:
//     latency   = base + 2 (g-1) hop inside + 2 floor(log2 N) hop outside
//     bandwidth = bus / 2 x a correction by size
// and where the switch of a node sums what passes ("NVLS"), inside a node or with trees over nodes ("NVLSTree"):
//     latency   = hop inside + 2 floor(log2 N) hop outside
//     bandwidth = efficiency x (g-1) / g x what a device sends inside, and at most what a node sends outside,
//                 of more than two nodes half of that
// Where switches between nodes sum (SHARP), an all-reduce may leave that to them: inside a node by a chain of its ranks
// ("CollNetChain"), directly between all of them ("CollNetDirect", with NVLink), or by its switch ("NVLS"):
//     latency   = chain: 2 (g-1) hop inside; direct: hop inside + (g-1) 0.4 us; NVLS: hop inside;  + hop outside
//     bandwidth = chain: half of a ring's inside; direct: g / (2 (g-1)) of it, from capability 90 on 0.85 times;
//                 NVLS: as above;  and at most what a node sends outside, each byte once
// Protocols: LL sends a flag with every 4 bytes, LL128 one with 120, Simple waits for whole buffers; the faster the
// answer, the less bandwidth.
// Figures: NVIDIA NCCL, src/graph/tuning.cc and src/graph/topo.h (2.27; measured by NVIDIA), but these simplifications:
// a channel carries what one NVLink (or a PCIe slot) does, so there are bus / that many; hosts are Intel's; CollNet has
// as many channels as fill its interfaces; no PAT; all-gathers and reduce-scatters take the ring. The correction by
// size is read with straight lines between its rows, so that time grows with size.
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

// "Tree", "LL128", as NCCL_ALGO and NCCL_PROTO have it.
absl::string_view NcclAlgorithmName(NcclAlgorithm algorithm);
absl::string_view NcclProtocolName(NcclProtocol protocol);

// Ranks of a communicator, where they are placed.
struct NcclGroup {
  int64_t ranks = 1;
  int64_t nodes = 1;
  // E.g. 80: the least of the devices.
  int compute_capability = 0;
  // Ranks of a node exchange data over NVLink, or there is one on each; else over PCIe.
  bool nvlink = false;
  bool switch_reduces = false;
  // Switches between the nodes sum (SHARP).
  bool fabric_reduces = false;
  // What a ring carries inside a node, where there are several ranks on one, and out of a node, where there are several
  // nodes: of the slowest. Bytes per second in each direction.
  double inside_bytes_per_second = 0;
  double outside_bytes_per_second = 0;
};

// Nothing if the group cannot do that. `bytes` are those of the whole buffer: what a reduce-scatter starts from, what
// an all-gather ends with. At least 2 ranks.
std::optional<double> NcclSeconds(NcclAlgorithm algorithm, NcclProtocol protocol, CollectiveKind kind, double bytes,
                                  const NcclGroup& group);

// The fastest; of equals the first in the order of the enumerations.
std::pair<NcclAlgorithm, NcclProtocol> NcclChoice(CollectiveKind kind, double bytes, const NcclGroup& group);

// A message from one rank to another: what both are busy for, and when it arrives after that. LL up to 16 KiB, else
// Simple.
struct NcclMessage {
  double seconds = 0;
  double latency_seconds = 0;
};
NcclMessage NcclSend(double bytes, double bytes_per_second, bool crosses, bool nvlink);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_NCCL_TUNING_H_
