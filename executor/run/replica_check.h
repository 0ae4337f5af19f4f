// Ranks that hold the same piece of a weight must hold the same bits of it. The check finds a rank that does not: after
// a fault of memory or of a link, or because the rank missed a message.
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

// Checksums of one copy of a weight on a rank.
struct WeightChecksum {
  int32_t tensor = 0;
  // PARAM or MASTER.
  int32_t role = 0;
  // `piece` is a checksum of which elements of the tensor the copy holds. Copies with equal `tensor`, `role`, `piece`
  // and `dtype` are replicas.
  uint32_t piece = 0;
  int32_t dtype = 0;
  // CRC32C of the elements, without padding.
  uint32_t bytes = 0;
};

// Checksums of all weights that the rank holds, in buffer order.
absl::StatusOr<std::vector<WeightChecksum>> WeightChecksums(const Program& program, int rank, const Arena& arena);

// Returns DataLoss, naming the tensor and the ranks, if replicas differ. `ranks[r]` holds the checksums of rank r.
// `step` is the number of optimizer steps done.
absl::Status CompareReplicas(const Program& program, int64_t step,
                             const std::vector<std::vector<WeightChecksum>>& ranks);

// Compares the weights of all ranks. All ranks call it, between two repetitions. Rank 0 finds the difference; the error
// that it returns aborts the job.
absl::Status CheckReplicas(const Program& program, int64_t step, const Arena& arena, Endpoint& endpoint,
                           std::chrono::nanoseconds timeout);

// For tests: flips one bit of the rank's first weight.
absl::Status FlipWeightBit(const Program& program, int rank, const Arena& arena);

// Ok, or the reason why the program cannot be checked like this: an asynchronous program (rule P14) has replicas at
// different steps.
absl::Status CanCheckReplicas(const Program& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_REPLICA_CHECK_H_
