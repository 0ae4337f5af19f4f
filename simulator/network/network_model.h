// How long transfers and collectives occupy the ranks that take part (rule P4). A network model is one file and one
// line in registry.def.
#ifndef WEFT_SIMULATOR_NETWORK_NETWORK_MODEL_H_
#define WEFT_SIMULATOR_NETWORK_NETWORK_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"
#include "proto/units.h"
#include "simulator/network/collective_call.h"
#include "simulator/network/group_form.h"

namespace weft {

// Streams are busy for `occupancy`; the data is visible `latency` after that.
struct TransferTime {
  Time occupancy;
  Time latency;

  friend bool operator==(const TransferTime&, const TransferTime&) = default;
};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;

  // A message of `bytes` from one rank to another. FailedPrecondition, naming the field, if the cluster lacks a figure.
  virtual absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const = 0;

  // A collective over `members` (ascending ranks), which is the group of any of them by `form`. Its latency depends on
  // the group alone.
  virtual absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                                  absl::Span<const int64_t> members) const = 0;
};

// A model of `cluster` with the ranks of `mesh` placed on it: rank r is device r mod devices_per_node of node
// r / devices_per_node. Both must outlive the model.
using NetworkModelFn = std::unique_ptr<NetworkModel>(const Mesh& mesh, const Cluster& cluster);

struct NetworkModelEntry {
  absl::string_view name;
  NetworkModelFn* make;
  absl::string_view description;
};

// All known network models, sorted by name.
absl::Span<const NetworkModelEntry> NetworkModels();

// By name; NotFound lists the known names and the nearest.
absl::StatusOr<const NetworkModelEntry*> FindNetworkModel(absl::string_view name);

}  // namespace weft

#endif  // WEFT_SIMULATOR_NETWORK_NETWORK_MODEL_H_
