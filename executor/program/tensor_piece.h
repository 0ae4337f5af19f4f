// Which elements of a logical tensor a buffer holds (Shard, rule P8), resolved for one rank: what checkpoints, initial
// values and weight files work on. A piece says nothing of meshes, so any plan can read what any other wrote.
#ifndef WEFT_EXECUTOR_PROGRAM_TENSOR_PIECE_H_
#define WEFT_EXECUTOR_PROGRAM_TENSOR_PIECE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct IndexInterval {
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const IndexInterval&, const IndexInterval&) = default;
};

// Of a tensor's unpadded shape: the indices that are taken of each dimension, ascending, make a block; of its elements,
// row-major, the piece has `count` from number `first` on. Buffers hold those and then padding.
struct TensorPiece {
  std::vector<std::vector<IndexInterval>> dimensions;
  int64_t first = 0;
  int64_t count = 0;

  friend bool operator==(const TensorPiece&, const TensorPiece&) = default;
};

// Consecutive elements: `count` from element `logical` of the tensor on are those from `position` of the piece on.
struct TensorRun {
  int64_t logical = 0;
  int64_t position = 0;
  int64_t count = 0;
};

// What `buffer` of `rank` holds of its tensor. InvalidArgument, naming the buffer, for a shard that does not divide the
// tensor or that is not as long as the buffer.
absl::StatusOr<TensorPiece> PieceOfBuffer(const Program& program, int64_t rank, const Buffer& buffer);

// Number of the first element of the buffer's piece, padding among them, of those of the whole tensor counted part
// after part: all elements of one part that cut dimensions leave (DimensionCut), then those of the next.
int64_t FirstElementOf(const Program& program, int64_t rank, const Buffer& buffer);

TensorPiece WholePiece(absl::Span<const int64_t> shape);

// InvalidArgument unless it is a piece of a tensor of this shape.
absl::Status CheckPiece(const TensorPiece& piece, absl::Span<const int64_t> shape);

// Ascending in position, as long as can be.
std::vector<TensorRun> RunsOf(const TensorPiece& piece, absl::Span<const int64_t> shape);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_TENSOR_PIECE_H_
