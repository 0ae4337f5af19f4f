// Jobs of processes for tests, with the data that a launcher would give them.
#ifndef WEFT_EXECUTOR_TESTING_JOB_TESTING_H_
#define WEFT_EXECUTOR_TESTING_JOB_TESTING_H_

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "executor/job/bootstrap.h"

namespace weft::exec {

// An environment with only these variables.
Environment EnvironmentOf(std::map<std::string, std::string> variables);

// Returns the rendezvous data of each process in a job of `ranks` on this node. Rank 0 gets a listener that is already
// open, as the local launcher makes it, so that nobody else can take its port.
std::vector<Rendezvous> LocalJob(int ranks, std::chrono::seconds timeout = std::chrono::seconds(20));

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_JOB_TESTING_H_
