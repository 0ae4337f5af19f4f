// Logical tensors in a rank's buffers: initial values, and reading and writing them unpadded, whole or in pieces.
// Checkpoints, weight files and tests speak of logical tensors only, so that any plan reads what any other wrote.
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

namespace weft::exec {

// What the optimizer keeps of a logical tensor.
enum class StatePart { kWeight, kMoment1, kMoment2 };
inline constexpr StatePart kStateParts[] = {StatePart::kWeight, StatePart::kMoment1, StatePart::kMoment2};

// "" for the weight, else "#moment1", "#moment2": what a tensor's name is followed by in checkpoints.
absl::string_view StatePartSuffix(StatePart part);

struct TensorData {
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// Of a dynamic loss scale (rule P11): what the buffer LOSS_SCALE holds.
struct LossScaleState {
  double scale = 0;
  // Optimizer steps in a row without overflow since it changed; and all that were skipped.
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

// The lowest rank of each piece of this part of the tensor, ascending; one rank if it is not cut. Together they hold
// all of it, each element once. Empty if no rank has it. Errors: InvalidArgument for shards that do not fit the tensor.
absl::StatusOr<std::vector<TensorHolder>> Holders(const Program& program, int tensor, StatePart part);

// The dtype in which the part is kept (of the weight: the optimizer's copy); DTYPE_UNSPECIFIED if no rank has it.
DType StateDType(const Program& program, int tensor, StatePart part);

class RankState {
 public:
  // `program` has been verified; both outlive this.
  RankState(const Program& program, int rank, const Arena* arena);

  // Sets all weights to their initial values (docs/kernels.md), all moments to zero, and a dynamic loss scale to its
  // first value.
  absl::Status Initialize();

  // Nothing if the rank has no dynamic loss scale; then setting it does nothing.
  absl::StatusOr<std::optional<LossScaleState>> LossScale() const;
  absl::Status SetLossScale(const LossScaleState& state);
  // To its first value.
  absl::Status ResetLossScale();

  // All of the tensor or a piece of it.
  bool Holds(int tensor, StatePart part) const { return Find(tensor, part) != nullptr; }
  // What the rank holds of it: in the tensor's shape if that is all, else the elements of its piece in one dimension.
  absl::StatusOr<TensorData> Read(int tensor, StatePart part) const;
  // The whole tensor, of which each copy on this rank takes its piece, converted and padded with zeros.
  // InvalidArgument, naming the tensor, for another shape. Where recipe.weight_rounding is STOCHASTIC, weights that
  // `steps` optimizer steps have made are rounded as the last of them did; 0 = to the nearest, as at the beginning.
  absl::Status Write(int tensor, StatePart part, const TensorData& data, int64_t steps = 0);

 private:
  const Buffer* Find(int tensor, StatePart part) const;
  // Null if the rank has none.
  std::byte* LossScaleData() const;
  // Initial values of a piece of a tensor, in each of the buffers that hold it, and zeros behind them.
  absl::Status Begin(const TensorPiece& piece, absl::Span<const Buffer* const> copies);
  // Zeros from this byte of the buffer on.
  absl::Status Clear(const Buffer& buffer, int64_t from);

  const Program& program_;
  const int rank_;
  const Template* template_;
  const Arena* arena_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_STATE_STATE_H_
