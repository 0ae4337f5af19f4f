#include "schedules/pipeline/v_shape.h"

#include "absl/strings/str_cat.h"
#include "schedules/pipeline/params.h"

namespace weft {

absl::Status CheckVShape(absl::string_view schedule, const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params, 2); !status.ok()) return status;
  if (params.virtual_stages != 0 && params.virtual_stages != 2) {
    return absl::InvalidArgumentError(absl::StrCat("virtual_stages = ", params.virtual_stages, " for schedule '",
                                                   schedule, "'; allowed: 2 (or not given), nearest valid: 2"));
  }
  return absl::OkStatus();
}

}  // namespace weft
