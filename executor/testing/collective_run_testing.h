// Runs hand-written programs of a few ranks for tests, and keeps what they did.
#ifndef WEFT_EXECUTOR_TESTING_COLLECTIVE_RUN_TESTING_H_
#define WEFT_EXECUTOR_TESTING_COLLECTIVE_RUN_TESTING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/program/arena.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft::exec {

struct Outcome {
  // By rank: its memory, its trace, the numbers of messages and bytes that it sent, and its status.
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<RankTrace> traces;
  std::vector<int64_t> messages, bytes;
  std::vector<absl::Status> statuses;
};

// Runs one thread per rank, inproc. Element i of buffer 0 is 100 * rank + i at first. `before` is called before every
// kernel with the rank and the step's name.
Outcome RunSteps(const Program& program, int64_t repetitions,
                 const std::function<void(int, const std::string&)>& before = nullptr);

// The FP32 elements of a buffer of a rank after the run.
std::vector<float> Content(const Outcome& outcome, const Program& program, int rank, int buffer);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_COLLECTIVE_RUN_TESTING_H_
