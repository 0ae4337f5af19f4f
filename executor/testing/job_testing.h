// Jobs of processes as tests make them: what a launcher would have said.
#ifndef WEFT_EXECUTOR_TESTING_JOB_TESTING_H_
#define WEFT_EXECUTOR_TESTING_JOB_TESTING_H_

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "executor/job/bootstrap.h"

namespace weft::exec {

// An environment of these variables alone.
Environment EnvironmentOf(std::map<std::string, std::string> variables);

// What the processes of a job of `ranks` on this node are told. Rank 0 is given a listener that is open already, as the
// local launcher makes it, so that no port is taken by chance.
std::vector<Rendezvous> LocalJob(int ranks, std::chrono::seconds timeout = std::chrono::seconds(20));

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_JOB_TESTING_H_
