// The cluster that a measurement ran on: a machine of the catalog for its device, with the nodes, interfaces and memory
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

// Name in the catalog: "A100-SXM4-40GB (Perlmutter)" is "perlmutter", "H800-SXM-80GB" is "hgx-h800". NotFound if the
// catalog has no such device. Cards in slots are other machines than modules with NVLink.
absl::StatusOr<std::string> CatalogMachineOf(const Measurement::Machine& machine);

// Interfaces of a node as sources word them: "8x200 Gb/s HDR InfiniBand per node", "400 Gb/s RDMA per GPU",
// "12.5 GB/s", "Omni-Path (measured all-reduce 23-55 Gb/s)". Bytes per second of one interface as specified, or as
// `reached`; 0 = it is not stated. Of "HDR InfiniBand" it is not stated how many a node has: `per_node` is 0.
struct Interfaces {
  int64_t per_node = 0;
  double bytes_per_second = 0;
  bool reached = false;
  // Whether the rate is that of a node is not stated.
  bool guessed = false;
};
Interfaces ParseInterfaces(absl::string_view text, int64_t gpus_per_node);

// `base` (a machine of the catalog) as the run has it. What was assumed is appended to `assumptions`.
absl::StatusOr<Cluster> MachineOf(const Measurement& run, const Cluster& base, std::vector<std::string>* assumptions);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_MACHINE_H_
