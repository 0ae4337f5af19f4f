#include "schedules/pipeline/params.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft {
namespace {

absl::Status InRange(absl::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " = ", value, "; allowed: ", low, " to ", high,
                                                 ", nearest valid: ", std::clamp(value, low, high)));
}

}  // namespace

absl::Status CheckParams(const ScheduleParams& params) {
  if (absl::Status s = InRange("ranks", params.ranks, 1, kMaximumSlots / 2); !s.ok()) return s;
  if (absl::Status s = InRange("microbatches", params.microbatches, 1, kMaximumSlots / 2 / params.ranks); !s.ok()) {
    return s;
  }
  if (absl::Status s = InRange("forward", params.costs.forward, 1, kMaximumSlotCost); !s.ok()) return s;
  if (absl::Status s = InRange("backward", params.costs.backward, 1, kMaximumSlotCost); !s.ok()) return s;
  const int64_t pairs = int64_t{params.ranks} * params.microbatches;
  const int64_t most = (int64_t{1} << 62) / pairs;
  if (params.costs.forward + params.costs.backward > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("forward + backward = ", params.costs.forward + params.costs.backward, " for ", params.ranks,
                     " ranks and ", params.microbatches, " microbatches; allowed: 2 to ", most));
  }
  return absl::OkStatus();
}

std::vector<std::vector<int>> LinearPlacement(int stages) {
  std::vector<std::vector<int>> placement(1, std::vector<int>(stages));
  std::iota(placement[0].begin(), placement[0].end(), 0);
  return placement;
}

}  // namespace weft
