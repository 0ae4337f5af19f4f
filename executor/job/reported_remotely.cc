#include "executor/job/reported_remotely.h"

#include "absl/strings/cord.h"

namespace weft::exec {
namespace {
constexpr char kElsewhere[] = "weft/reported_elsewhere";
}  // namespace

absl::Status AsReportedRemotely(absl::Status status) {
  if (!status.ok()) status.SetPayload(kElsewhere, absl::Cord("1"));
  return status;
}

bool ReportedRemotely(const absl::Status& status) { return status.GetPayload(kElsewhere).has_value(); }

}  // namespace weft::exec
