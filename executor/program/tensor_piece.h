// The elements of a logical tensor that a buffer holds (Shard, rule P8), resolved for one rank. Checkpoints, initial
// values and weight files work on such pieces. A piece says nothing of meshes, so any plan can read what any other plan
// wrote.
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

// A piece of a tensor's unpadded shape. The ascending indices that are taken of each dimension make a block. Of the
// block's elements, row-major, the piece has `count` from number `first` on. Buffers hold those and then padding.
struct TensorPiece {
  std::vector<std::vector<IndexInterval>> dimensions;
  int64_t first = 0;
  int64_t count = 0;

  friend bool operator==(const TensorPiece&, const TensorPiece&) = default;
};

// Consecutive elements: the `count` elements from `position` of the piece on are those from element `logical` of the
// tensor on.
struct TensorRun {
  int64_t logical = 0;
  int64_t position = 0;
  int64_t count = 0;
};

// Returns the part of its tensor that `buffer` of `rank` holds. InvalidArgument, naming the buffer, for a shard that
// does not divide the tensor or that is not as long as the buffer.
absl::StatusOr<TensorPiece> PieceOfBuffer(const Program& program, int64_t rank, const Buffer& buffer);

// Number of the first element of the buffer's piece among the elements of the whole tensor, padding included. Elements
// are counted part after part: all elements of one part that dimension cuts (DimensionCut) leave, then those of the
// next part.
int64_t FirstElementOf(const Program& program, int64_t rank, const Buffer& buffer);

TensorPiece WholePiece(absl::Span<const int64_t> shape);

// InvalidArgument unless `piece` is a piece of a tensor of this shape.
absl::Status CheckPiece(const TensorPiece& piece, absl::Span<const int64_t> shape);

// The runs of the piece, ascending in position and as long as possible.
std::vector<TensorRun> RunsOf(const TensorPiece& piece, absl::Span<const int64_t> shape);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_TENSOR_PIECE_H_
