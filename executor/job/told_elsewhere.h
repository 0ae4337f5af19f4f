// Errors that end several processes of a job and are reported by one of them.
#ifndef WEFT_EXECUTOR_JOB_TOLD_ELSEWHERE_H_
#define WEFT_EXECUTOR_JOB_TOLD_ELSEWHERE_H_

#include "absl/status/status.h"

namespace weft::exec {

// Marks an error: another process of the job reports it to the user. Ok stays as it is.
absl::Status ToldElsewhere(absl::Status status);
bool ReportedElsewhere(const absl::Status& status);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_TOLD_ELSEWHERE_H_
