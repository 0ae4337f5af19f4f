// Finds the rank that decides whether a program fits its devices.
#ifndef WEFT_SIMULATOR_METRICS_TIGHTEST_RANK_H_
#define WEFT_SIMULATOR_METRICS_TIGHTEST_RANK_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/report.pb.h"
#include "simulator/network/placement.h"

namespace weft::sim {

struct TightestRank {
  int64_t rank = 0;
  // `device_bytes`: bytes that the rank takes, including bytes that the device reserves. `capacity_bytes`: bytes of the
  // device.
  int64_t device_bytes = 0;
  int64_t capacity_bytes = 0;
};

// Returns the rank whose device has the least memory left, or lacks most; of several, the first. A rank of template t
// takes bytes_of_template[t]. `template_of_rank` has every rank of the placement; a rank with -1 has no template and
// takes nothing.
TightestRank FindTightestRank(absl::Span<const int64_t> bytes_of_template, absl::Span<const int32_t> template_of_rank,
                              const RankPlacement& placement);

// Sets device_bytes, capacity_bytes and `fits` of the report. `fits` also depends on the report's planned_host_bytes
// and host_capacity_bytes.
void ReportFit(const TightestRank& tightest, SimulationReport* report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_METRICS_TIGHTEST_RANK_H_
