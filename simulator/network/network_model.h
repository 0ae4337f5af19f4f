// A network model gives the times for which transfers and collectives occupy the ranks that take part (rule P4). To add
// a model, write one file and one line in registry.def.
#ifndef WEFT_SIMULATOR_NETWORK_NETWORK_MODEL_H_
#define WEFT_SIMULATOR_NETWORK_NETWORK_MODEL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"
#include "proto/util/units.h"
#include "simulator/network/collective_call.h"
#include "simulator/network/group_form.h"

namespace weft::sim {

// Streams are busy for `occupancy`; the data is visible `latency` after the end of the occupancy.
struct TransferTime {
  Time occupancy;
  Time latency;

  friend bool operator==(const TransferTime&, const TransferTime&) = default;
};

// A phase of a flow over shared links (rule P12). All messages of the phase are alike.
struct FlowPhase {
  // Time before any byte moves: overheads and latencies of the phase's rounds.
  int64_t fixed_ps = 0;
  // Bytes that every message moves, over all rounds of the phase; 0 = the phase only lasts `fixed_ps`.
  int64_t bytes = 0;
  // (link, number > 0 of messages that use it at the same time), in order of the links, each link once. Not empty if
  // there are bytes.
  std::vector<std::pair<int32_t, int32_t>> loads = {};

  friend bool operator==(const FlowPhase&, const FlowPhase&) = default;
};

// A transfer or a collective. It is finished `latency` after the end of its last phase.
struct Flow {
  std::vector<FlowPhase> phases = {};
  Time latency = {};

  friend bool operator==(const Flow&, const Flow&) = default;
};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;

  // Returns the bytes per second that each link carries, > 0. If the list is empty, nothing in flight shares links, and
  // Transfer and Collective give all times. Otherwise TransferFlow and CollectiveFlow give the flows, and Transfer and
  // Collective give the times on an idle network.
  virtual absl::Span<const int64_t> LinkCapacities() const { return {}; }
  virtual absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const;
  virtual absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm& form,
                                              absl::Span<const int64_t> members) const;

  // Returns the time of a message of `bytes` from one rank to another. FailedPrecondition, naming the field, if the
  // cluster lacks a figure.
  virtual absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const = 0;

  // Returns the time of a collective over `members` (ascending ranks). For each member, `form` must give these members
  // as its group. The latency must depend on the group alone.
  virtual absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                                  absl::Span<const int64_t> members) const = 0;
};

// Makes a model of `cluster` with the ranks of `mesh` placed on it (placement.h). Both must outlive the model.
using NetworkModelFn = std::unique_ptr<NetworkModel>(const Mesh& mesh, const Cluster& cluster);

// Properties in which network models differ. A model can have any number of them.
enum NetworkTrait : uint32_t {
  // Transfers and collectives take no time.
  kTakesNoTime = 1,
  // Every pair of ranks has the same bandwidth, wherever the ranks are placed.
  kIgnoresPlacement = 2,
  // Collectives run in rings in order of ranks, whatever nodes the ranks are on.
  kRingsByRank = 4,
  // The communication library chooses algorithms and latencies. The program's algorithms and the cluster's latencies
  // are ignored.
  kChoosesAlgorithms = 8,
  // Everything in flight shares the links that it crosses.
  kSharesLinks = 16,
};

struct NetworkModelEntry {
  absl::string_view name;
  NetworkModelFn* make;
  // Sum of the NetworkTrait values that the model has.
  uint32_t traits;
  absl::string_view description;
};

// Returns all known network models, sorted by name.
absl::Span<const NetworkModelEntry> NetworkModels();

// Finds a model by name. NotFound lists the known names and the nearest.
absl::StatusOr<const NetworkModelEntry*> FindNetworkModel(absl::string_view name);

// True if there is a network model of that name and it has the trait.
bool HasTrait(absl::string_view name, NetworkTrait trait);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_NETWORK_MODEL_H_
