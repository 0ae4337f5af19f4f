// Checks that the ranks of a job, which may be processes on several nodes, were started with the same program, options
// and data.
#ifndef WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_
#define WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// Facts that must be equal on all ranks, as (name, value). All ranks list them in the same order.
using JobFacts = std::vector<std::pair<std::string, std::string>>;

// Compares the facts of all ranks; all ranks must call it. On rank 0, returns FailedPrecondition if a rank differs. The
// error names that rank, its value and rank 0's value. The caller aborts the job, so that the other ranks fail with the
// same error.
absl::Status AgreeOnJob(Endpoint& endpoint, const JobFacts& mine, std::chrono::nanoseconds timeout);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_
