// How long transfers and collectives occupy the ranks that take part (rule P4). A network model is one file and one
// line in registry.def.
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

// Streams are busy for `occupancy`; the data is visible `latency` after that.
struct TransferTime {
  Time occupancy;
  Time latency;

  friend bool operator==(const TransferTime&, const TransferTime&) = default;
};

// Messages that are alike, as a flow over shared links (rule P12).
struct FlowPhase {
  // Before any byte moves: overheads and latencies of its rounds.
  int64_t fixed_ps = 0;
  // What every message moves, over all rounds of the phase; 0 = the phase is only `fixed_ps` long.
  int64_t bytes = 0;
  // Messages that use a link at the same time, > 0, in order of the links, each once; not empty if there are bytes.
  std::vector<std::pair<int32_t, int32_t>> loads = {};

  friend bool operator==(const FlowPhase&, const FlowPhase&) = default;
};

// A transfer or a collective. Finished `latency` after its end.
struct Flow {
  std::vector<FlowPhase> phases = {};
  Time latency = {};

  friend bool operator==(const Flow&, const Flow&) = default;
};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;

  // Bytes per second that each link carries, > 0. Empty: what is in flight shares nothing, and Transfer and Collective
  // tell all. Otherwise TransferFlow and CollectiveFlow do, and the other two tell what an idle network would take.
  virtual absl::Span<const int64_t> LinkCapacities() const { return {}; }
  virtual absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const;
  virtual absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm& form,
                                              absl::Span<const int64_t> members) const;

  // A message of `bytes` from one rank to another. FailedPrecondition, naming the field, if the cluster lacks a figure.
  virtual absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const = 0;

  // A collective over `members` (ascending ranks), which is the group of any of them by `form`. Its latency depends on
  // the group alone.
  virtual absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                                  absl::Span<const int64_t> members) const = 0;
};

// A model of `cluster` with the ranks of `mesh` placed on it (placement.h). Both must outlive the model.
using NetworkModelFn = std::unique_ptr<NetworkModel>(const Mesh& mesh, const Cluster& cluster);

// What sets a network model apart; a model has any of these.
enum NetworkTrait : uint32_t {
  // Everything arrives at once.
  kTakesNoTime = 1,
  // Every pair of ranks has the same bandwidth, wherever the ranks are placed.
  kIgnoresPlacement = 2,
  // Collectives run in rings in order of ranks, whatever nodes the ranks are on.
  kRingsByRank = 4,
  // Collectives take the algorithms and latencies of the library, not those of the program and the cluster.
  kChoosesAlgorithms = 8,
  // Everything in flight shares the links that it crosses.
  kSharesLinks = 16,
};

struct NetworkModelEntry {
  absl::string_view name;
  NetworkModelFn* make;
  // Sum of NetworkTrait.
  uint32_t traits;
  absl::string_view description;
};

// All known network models, sorted by name.
absl::Span<const NetworkModelEntry> NetworkModels();

// By name; NotFound lists the known names and the nearest.
absl::StatusOr<const NetworkModelEntry*> FindNetworkModel(absl::string_view name);

// True if there is a network model of that name and it has the trait.
bool HasTrait(absl::string_view name, NetworkTrait trait);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_NETWORK_MODEL_H_
