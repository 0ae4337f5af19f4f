#include "simulator/metrics/tightest_rank.h"

#include <algorithm>

namespace weft::sim {

TightestRank FindTightestRank(absl::Span<const int64_t> bytes_of_template, absl::Span<const int32_t> template_of_rank,
                              const RankPlacement& placement) {
  // Sizes may be hostile: clamp them, so that sums stay within int64.
  constexpr int64_t kMax = (int64_t{1} << 62) - 1;
  TightestRank tightest;
  int64_t least_left = 0;
  for (size_t rank = 0; rank < template_of_rank.size(); ++rank) {
    const int kind = placement.all_alike() ? 0 : placement.KindOf(static_cast<int64_t>(rank));
    const Device& device = *placement.kinds()[kind];
    const int t = template_of_rank[rank];
    const int64_t own = t < 0 ? 0 : std::min(kMax, bytes_of_template[t]);
    const int64_t bytes = own + std::min(kMax, device.reserved_bytes());
    const int64_t room = device.memory_bytes() - bytes;
    if (rank > 0 && room >= least_left) continue;
    least_left = room;
    tightest = {static_cast<int64_t>(rank), bytes, device.memory_bytes()};
  }
  return tightest;
}

void ReportFit(const TightestRank& tightest, SimulationReport* report) {
  report->set_device_bytes(tightest.device_bytes);
  report->set_capacity_bytes(tightest.capacity_bytes);
  const bool host_fits =
      report->host_capacity_bytes() <= 0 || report->planned_host_bytes() <= report->host_capacity_bytes();
  report->set_fits(tightest.device_bytes <= tightest.capacity_bytes && host_fits);
}

}  // namespace weft::sim
