// Checkpoints: a folder per saved step, with logical tensors that any plan of the same model and recipe can load.
//
//   DIR/latest               "step-00000020\n": replaced last, atomically
//   DIR/step-00000020/       manifest.textproto, rank-0000.safetensors, ...
//   DIR/.tmp-step-00000030/  being written, or left behind by a crash; never read
//   DIR/.old-step-00000020/  what is being replaced; stands for step-00000020 while that is not there
//
// Each rank writes the tensors, or pieces of cut ones, of which it is the first holder. The folder gets its final name
// when all of its files are synced.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/checkpoint/checkpoint.pb.h"
#include "executor/data/data.h"
#include "executor/interface/transport.h"
#include "executor/state/state.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct CheckpointOptions {
  std::string directory;
  // The step that this run has saved last, or went on from; -1 = it began anew. Checkpoints beyond it are of a run that
  // was left: with this save they go to a folder of their own (checkpoint_branch.h).
  int64_t follows = -1;
  // So many are kept; at least 1. The one just saved is always among them; of the others those of higher steps go
  // before the oldest.
  int64_t keep = 2;
  // Of the training data.
  DataIdentity data = {};
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

// Saves the state after `step` optimizer steps. All ranks call it when they have finished that step. When it returns on
// rank 0 the checkpoint is durable; on the others, when their part is.
absl::Status SaveCheckpoint(const CheckpointOptions& options, const Program& program, int64_t step,
                            const RankState& state, Endpoint& endpoint);

// The folder of the checkpoint that `latest` names or, if that is gone, of the newest whole one; nothing if there is
// none. `wanted` >= 0: that of this step; NotFound, naming those there are, without it.
absl::StatusOr<std::optional<std::string>> FindCheckpoint(const std::string& directory, int64_t wanted = -1);

// "", or the note that `found` (of FindCheckpoint without `wanted`) is not the checkpoint that `latest` names.
std::string NoteOnLatest(const std::string& directory, const std::string& found);

// What was found wrong with a checkpoint, and which to take instead: the newest other one of the directory whose files
// are what its manifest says.
absl::Status WithUndamaged(const absl::Status& damage, const std::string& directory, const std::string& checkpoint);

// Of a checkpoint folder. Errors name the file.
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& checkpoint);
// The same from the content of the file.
absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view bytes, const std::string& path);

// Ok if `program` may continue from the checkpoint: same model, same recipe (its steps may have grown). The error names
// each field that differs. DataLoss if the manifest's own seed or next sample are not those of its recipe and step.
absl::Status CheckContinues(const CheckpointManifest& manifest, const std::string& checkpoint, const Program& program);

// What is allowed but makes the run another one than it would have been, one line each: other data, other steps.
std::vector<std::string> NotesOnContinuing(const CheckpointManifest& manifest, const Program& program,
                                           const DataIdentity& data);

// Sets all that this rank holds. Files are checked against the manifest before they are used.
absl::Status LoadCheckpoint(const std::string& checkpoint, const CheckpointManifest& manifest, const Program& program,
                            RankState* state);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_H_
