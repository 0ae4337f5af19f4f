// The elements of a logical tensor that a buffer of one rank holds (Shard, rule P8). Checkpoints, initial values and
// weight files work on such pieces. A piece does not depend on a mesh, so any plan can read what any other plan wrote.
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

// A piece of a tensor's unpadded shape. `dimensions` lists ascending indices in each dimension; together they form a
// block. The piece is `count` elements of the block, in row-major order, from position `first` on. A buffer holds these
// elements and then padding.
struct TensorPiece {
  std::vector<std::vector<IndexInterval>> dimensions;
  int64_t first = 0;
  int64_t count = 0;

  friend bool operator==(const TensorPiece&, const TensorPiece&) = default;
};

// A run of consecutive elements. Elements [position, position + count) of the piece are elements [logical, logical +
// count) of the tensor.
struct TensorRun {
  int64_t logical = 0;
  int64_t position = 0;
  int64_t count = 0;
};

// Returns the part of its tensor that `buffer` of `rank` holds. Returns InvalidArgument, with the buffer's name, if the
// shard does not divide the tensor or if its length differs from the buffer's.
absl::StatusOr<TensorPiece> PieceOfBuffer(const Program& program, int64_t rank, const Buffer& buffer);

// Returns the number of the first element of the buffer's piece, counted over all elements of the tensor, padding
// included. The dimension cuts (DimensionCut) divide the tensor into parts. Elements are counted part after part: all
// elements of one part, then all elements of the next.
int64_t FirstElementOf(const Program& program, int64_t rank, const Buffer& buffer);

TensorPiece WholePiece(absl::Span<const int64_t> shape);

// InvalidArgument unless `piece` is a piece of a tensor of this shape.
absl::Status CheckPiece(const TensorPiece& piece, absl::Span<const int64_t> shape);

// The runs of the piece, ascending in position and as long as possible.
std::vector<TensorRun> RunsOf(const TensorPiece& piece, absl::Span<const int64_t> shape);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_TENSOR_PIECE_H_
