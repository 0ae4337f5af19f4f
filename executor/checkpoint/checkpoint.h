// Checkpoints: a folder per saved step, with logical tensors that any plan of the same model and recipe can load.
//
//   DIR/latest               "step-00000020\n": replaced last, atomically
//   DIR/step-00000020/       manifest.textproto, rank-0000.safetensors, ...
//   DIR/.tmp-step-00000030/  being written, or left behind by a crash; never read
//   DIR/.old-step-00000020/  being replaced; stands for step-00000020 while that folder does not exist
//
// Several ranks may hold the same tensor, or the same piece of a cut tensor; only its first holder writes it. The
// folder gets its final name when all of its files are synced.
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
  // The step that this run has saved last or continued from; -1 = it began anew. Checkpoints of later steps belong to
  // an abandoned run. This save moves them to a folder of their own (checkpoint_branch.h).
  int64_t follows = -1;
  // Number of checkpoints to keep; at least 1. The one just saved is always kept. Among the others, checkpoints of
  // higher steps are removed first, then the oldest.
  int64_t keep = 2;
  // Identity of the training data.
  DataIdentity data = {};
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

// Saves the state after `step` optimizer steps. All ranks call it when they have finished that step. When it returns on
// rank 0, the whole checkpoint is durable. When it returns on another rank, only that rank's part is durable.
absl::Status SaveCheckpoint(const CheckpointOptions& options, const Program& program, int64_t step,
                            const RankState& state, Endpoint& endpoint);

// Returns the folder of the checkpoint that `latest` names or, if that is gone, of the newest whole checkpoint. If
// there is no checkpoint, returns nothing, or DataLoss if `latest` names one. With `wanted` >= 0, returns the
// checkpoint of that step, or NotFound with the steps that exist.
absl::StatusOr<std::optional<std::string>> FindCheckpoint(const std::string& directory, int64_t wanted = -1);

// Returns a note if `found` (from FindCheckpoint without `wanted`) is not the checkpoint that `latest` names; "" if it
// is.
std::string NoteOnLatest(const std::string& directory, const std::string& found);

// Adds to the error about a damaged checkpoint the name of one to use instead: the newest other checkpoint of the
// directory whose files match its manifest.
absl::Status WithUndamaged(const absl::Status& damage, const std::string& directory, const std::string& checkpoint);

// Reads the manifest of a checkpoint folder. Errors name the file.
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& checkpoint);
// Parses the content of a manifest file.
absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view bytes, const std::string& path);

// Returns ok if `program` may continue from the checkpoint: it must have the same model and recipe, but may have more
// steps. The error names each field that differs. DataLoss if the manifest's seed or next sample do not match its
// recipe and step.
absl::Status CheckContinues(const CheckpointManifest& manifest, const std::string& checkpoint, const Program& program);

// Notes on differences that are allowed but change the run, one line each, such as other data or other steps.
std::vector<std::string> NotesOnContinuing(const CheckpointManifest& manifest, const Program& program,
                                           const DataIdentity& data);

// Loads all tensors and parts that this rank holds. Each file is checked against the manifest before it is used.
absl::Status LoadCheckpoint(const std::string& checkpoint, const CheckpointManifest& manifest, const Program& program,
                            RankState* state);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_H_
