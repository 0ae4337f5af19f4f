// Jobs of a few ranks without training, for tests of checkpoints and of weight files.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_JOB_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_JOB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/transport.h"
#include "executor/program/arena.h"
#include "executor/state/state.h"
#include "proto/program.pb.h"
#include "tests/fresh_directory.h"

namespace weft::exec {

// Two tensors, the first padded from 3 to 4 rows. With pipe = 2 each stage holds one of them, and `tied` puts a copy of
// the first on both. Weights in bf16 have an fp32 master.
Program CheckpointProgram(int data, int pipe, bool bf16 = false, bool tied = false);

// The same tensors, cut into pieces. The cut by axis x gives blocks of rows, and the cut by axis z gives ranges of
// these blocks. The replicas divide the optimizer's state among themselves; with `shard_group`, each group of that many
// neighboring replicas does.
Program CutCheckpointProgram(int64_t x, int64_t z, int64_t data, int64_t shard_group = 0);

// The ranks of a program, each with its own memory.
struct CheckpointJob {
  explicit CheckpointJob(Program p);

  absl::Status Save(const std::string& directory, int64_t step, int64_t keep = 2);
  absl::Status Load(const std::string& checkpoint);

  // Sets every element to a number that depends on the seed, tensor, part and position, and that bf16 cannot hold
  // exactly.
  void Fill(int64_t seed);
  static TensorData Expected(int tensor, StatePart part, int64_t seed);
  void ExpectFilled(int64_t seed);

  // The part of a whole FP32 tensor that the state's rank holds.
  std::vector<std::byte> PieceOf(const RankState* state, int tensor, StatePart part, const TensorData& whole) const;

  Program program;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<RankState>> states;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_JOB_H_
