// Errors that end several processes of a job and are reported by one of them.
#ifndef WEFT_EXECUTOR_JOB_REPORTED_REMOTELY_H_
#define WEFT_EXECUTOR_JOB_REPORTED_REMOTELY_H_

#include "absl/status/status.h"

namespace weft::exec {

// Marks an error: another process of the job reports it to the user. Ok stays as it is.
absl::Status AsReportedRemotely(absl::Status status);
bool ReportedRemotely(const absl::Status& status);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_REPORTED_REMOTELY_H_
