// Whether the ranks of a job, which may be processes on several nodes, were started to do the same.
#ifndef WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_
#define WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// What all ranks must have alike, as (what it is called, value), in the same order on all.
using JobFacts = std::vector<std::pair<std::string, std::string>>;

// All ranks call it. On rank 0 FailedPrecondition, naming a rank that differs, what it has and what rank 0 has; the
// caller aborts the job, so that the others fail with that too.
absl::Status AgreeOnJob(Endpoint& endpoint, const JobFacts& mine, std::chrono::nanoseconds timeout);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_JOB_AGREEMENT_H_
