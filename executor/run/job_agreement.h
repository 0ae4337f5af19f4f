// Checks that the ranks of a job, which may be processes on several nodes, were started to do the same.
#ifndef WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_
#define WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// Facts that must be equal on all ranks, as (name, value), in the same order on all.
using JobFacts = std::vector<std::pair<std::string, std::string>>;

// All ranks call it. FailedPrecondition on rank 0, naming a rank that differs, its value and rank 0's value. The caller
// aborts the job, so that the other ranks fail with the same error.
absl::Status AgreeOnJob(Endpoint& endpoint, const JobFacts& mine, std::chrono::nanoseconds timeout);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_
