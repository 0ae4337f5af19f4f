// Logical tensors in a rank's buffers: sets initial values, and reads and writes the tensors unpadded, whole or in
// pieces. Checkpoints, weight files and tests use logical tensors only, so that any plan reads what any other plan
// wrote.
#ifndef WEFT_EXECUTOR_STATE_STATE_H_
#define WEFT_EXECUTOR_STATE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/program/arena.h"
#include "executor/program/tensor_piece.h"
#include "proto/program.pb.h"
#include "proto/util/state_part.h"

namespace weft::exec {

struct TensorData {
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// The state of a dynamic loss scale (rule P11), which the buffer LOSS_SCALE holds.
struct LossScaleState {
  double scale = 0;
  // Optimizer steps in a row without overflow since the scale changed, and the number of all skipped steps.
  int64_t steady = 0;
  int64_t skipped = 0;
};
bool HasDynamicLossScale(const Program& program);

// A rank and the piece of a tensor that it holds.
struct TensorHolder {
  int rank = -1;
  const Buffer* buffer = nullptr;
  TensorPiece piece;
};

// Returns the lowest rank that holds each piece of this part of the tensor, ascending; one rank if the tensor is not
// cut. Together these ranks hold each element once. Empty if no rank has the part. InvalidArgument for shards that do
// not fit the tensor.
absl::StatusOr<std::vector<TensorHolder>> Holders(const Program& program, int tensor, StatePart part);

class RankState {
 public:
  // `program` must have been verified. It and `arena` must outlive this.
  RankState(const Program& program, int rank, const Arena* arena);

  // Sets all weights to their initial values (docs/kernels.md), all moments to zero, and a dynamic loss scale to its
  // first value.
  absl::Status Initialize();

  // LossScale returns nothing if the rank has no dynamic loss scale; SetLossScale then does nothing.
  absl::StatusOr<std::optional<LossScaleState>> LossScale() const;
  absl::Status SetLossScale(const LossScaleState& state);
  // Sets the loss scale to its first value.
  absl::Status ResetLossScale();

  // True if the rank holds this part of the tensor or a piece of it.
  bool Holds(int tensor, StatePart part) const { return Find(tensor, part) != nullptr; }
  // Reads what the rank holds of the tensor: in the tensor's shape if that is all of it, else the elements of its piece
  // in one dimension.
  absl::StatusOr<TensorData> Read(int tensor, StatePart part) const;
  // Writes the whole tensor. Each copy on this rank takes its piece, converted and padded with zeros. InvalidArgument,
  // naming the tensor, for another shape. If recipe.weight_rounding is STOCHASTIC, weights after `steps` optimizer
  // steps are rounded as the last of these steps did; 0 = to the nearest, as at the beginning.
  absl::Status Write(int tensor, StatePart part, const TensorData& data, int64_t steps = 0);

 private:
  const Buffer* Find(int tensor, StatePart part) const;
  // Null if the rank has no dynamic loss scale.
  std::byte* LossScaleData() const;
  // Host memory for initial values. It is kept from tensor to tensor: to get new memory takes longer than to fill it.
  struct StartSpace {
    std::vector<float> values;
    std::vector<std::vector<std::byte>> staged[2];
  };
  // Writes the initial values of a piece of a tensor to each buffer that holds it, and zeros after them.
  absl::Status Begin(const TensorPiece& piece, absl::Span<const Buffer* const> copies, StartSpace& space);
  // Writes zeros from byte `from` of the buffer on.
  absl::Status Clear(const Buffer& buffer, int64_t from);

  const Program& program_;
  const int rank_;
  const Template* template_;
  const Arena* arena_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_STATE_STATE_H_
