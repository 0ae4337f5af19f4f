// The cluster that a measurement ran on: the catalog's machine for its device, with the nodes, interfaces and memory
// that the run states.
#ifndef WEFT_TESTS_ACCURACY_MACHINE_H_
#define WEFT_TESTS_ACCURACY_MACHINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/cluster.pb.h"
#include "tests/accuracy/measurement.h"

namespace weft {

// Returns the machine's name in the catalog: "A100-SXM4-40GB (Perlmutter)" is "perlmutter", "H800-SXM-80GB" is
// "hgx-h800". Returns NotFound if the catalog has no such device. PCIe cards and modules with NVLink are different
// machines.
absl::StatusOr<std::string> CatalogMachineOf(const Measurement::Machine& machine);

// A node's interfaces as sources word them: "8x200 Gb/s HDR InfiniBand per node", "400 Gb/s RDMA per GPU", "12.5 GB/s",
// "Omni-Path (measured all-reduce 23-55 Gb/s)". The rate is that of one interface: nominal, or measured if `reached`; 0
// = not stated. `per_node` is 0 if the number of interfaces is not stated, as in "HDR InfiniBand".
struct Interfaces {
  int64_t per_node = 0;
  double bytes_per_second = 0;
  bool reached = false;
  // True if the rate is taken as per node although the source does not state that.
  bool guessed = false;
};
Interfaces ParseInterfaces(absl::string_view text, int64_t gpus_per_node);

// Adapts `base`, a machine of the catalog, to what the run states. Appends what was assumed to `assumptions`.
absl::StatusOr<Cluster> MachineOf(const Measurement& run, const Cluster& base, std::vector<std::string>* assumptions);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_MACHINE_H_
