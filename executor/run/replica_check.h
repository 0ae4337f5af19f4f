// Ranks that hold the same piece of a weight hold the same bits of it. A check finds the one that does not: after a
// fault of memory or of a link, or a rank that missed a message.
#ifndef WEFT_EXECUTOR_RUN_REPLICA_CHECK_H_
#define WEFT_EXECUTOR_RUN_REPLICA_CHECK_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/transport.h"
#include "executor/program/arena.h"
#include "proto/program.pb.h"

namespace weft::exec {

// One copy of a weight on a rank.
struct WeightChecksum {
  int32_t tensor = 0;
  // PARAM or MASTER.
  int32_t role = 0;
  // Of which elements of the tensor it holds, and in which dtype: copies where both are equal are replicas.
  uint32_t piece = 0;
  int32_t dtype = 0;
  // CRC32C of them, padding left out.
  uint32_t bytes = 0;
};

// Of all that the rank holds, in buffer order.
absl::StatusOr<std::vector<WeightChecksum>> WeightChecksums(const Program& program, int rank, const Arena& arena);

// DataLoss, naming the tensor and the ranks, if replicas differ; `ranks[r]` are those of rank r. `step` is how many
// optimizer steps are done.
absl::Status CompareReplicas(const Program& program, int64_t step,
                             const std::vector<std::vector<WeightChecksum>>& ranks);

// Compares those of all ranks. Called by all, between two repetitions. Rank 0 finds the difference; the error that it
// returns aborts the job.
absl::Status CheckReplicas(const Program& program, int64_t step, const Arena& arena, Endpoint& endpoint,
                           std::chrono::nanoseconds timeout);

// For tests: one bit of the rank's first weight is another from now on.
absl::Status FlipWeightBit(const Program& program, int rank, const Arena& arena);

// Ok, or why the program has nothing that could be checked so: an asynchronous one (rule P14) has replicas at different
// steps.
absl::Status CanCheckReplicas(const Program& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_REPLICA_CHECK_H_
