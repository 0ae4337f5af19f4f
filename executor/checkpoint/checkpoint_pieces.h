// Pieces of cut tensors in checkpoints: their entries in the manifest, and how they are joined to tensors again.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_PIECES_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_PIECES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/checkpoint/checkpoint.pb.h"
#include "executor/program/tensor_piece.h"
#include "executor/state/state.h"

namespace weft::exec {

// Returns the name of the file entry that holds a piece of a tensor. `part` is the suffix of the state's part, such as
// "#moment1".
std::string PieceEntryName(const std::string& tensor, absl::string_view part);

void SetPiece(const TensorPiece& piece, CheckpointPiece* out);
TensorPiece GetPiece(const CheckpointPiece& piece);

// Returns InvalidArgument, naming the field, if a piece's tensor, part or file does not exist, or if a piece does not
// fit its tensor's shape.
absl::Status CheckPieces(const CheckpointManifest& manifest);

// Joins a whole tensor from its pieces; `read` returns the content of one piece. The manifest has passed CheckPieces.
// Returns DataLoss if the pieces do not have each element of the tensor exactly once, or if they differ in dtype.
absl::StatusOr<TensorData> JoinPieces(const CheckpointManifest& manifest,
                                      absl::Span<const CheckpointPiece* const> pieces,
                                      const std::function<absl::StatusOr<TensorData>(const CheckpointPiece&)>& read);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_PIECES_H_
