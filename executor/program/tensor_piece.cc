#include "executor/program/tensor_piece.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft::exec {
namespace {

using Intervals = std::vector<IndexInterval>;

int64_t Length(const Intervals& intervals) {
  int64_t length = 0;
  for (const IndexInterval& interval : intervals) length += interval.end - interval.begin;
  return length;
}

void Append(Intervals& to, IndexInterval interval) {
  if (interval.begin >= interval.end) return;
  if (!to.empty() && to.back().end == interval.begin) {
    to.back().end = interval.end;
  } else {
    to.push_back(interval);
  }
}

// Appends the indices at positions [first, first + count) of `from`.
void AppendSlice(const Intervals& from, int64_t first, int64_t count, Intervals& to) {
  for (const IndexInterval& interval : from) {
    const int64_t length = interval.end - interval.begin;
    const int64_t begin = std::clamp<int64_t>(first, 0, length);
    const int64_t end = std::clamp<int64_t>(first + count, 0, length);
    Append(to, {interval.begin + begin, interval.begin + end});
    first -= length;
  }
}

int64_t Product(absl::Span<const int64_t> extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

int64_t BlockElements(const TensorPiece& piece) {
  int64_t product = 1;
  for (const Intervals& intervals : piece.dimensions) product *= Length(intervals);
  return product;
}

// Cuts a dimension down to part `part` of `parts`. The dimension consists of `runs` equal runs; part `part` of each run
// is kept. Returns false if the runs or parts do not divide the dimension.
bool CutDimension(int64_t runs, int64_t parts, int64_t part, Intervals& intervals) {
  const int64_t length = Length(intervals);
  if (length % runs != 0 || length / runs % parts != 0) return false;
  const int64_t run = length / runs, own = run / parts;
  Intervals result;
  for (int64_t r = 0; r < runs; ++r) AppendSlice(intervals, r * run + part * own, own, result);
  intervals = std::move(result);
  return true;
}

// The part of a block that one rank holds after all range cuts of its shard.
struct RangeOfBlock {
  // `part` is the number of elements that each rank has space for. `count` is the number that this rank holds: fewer
  // than `part` at the end of the block if a cut is not even. `first` is the position in the block.
  int64_t part = 0;
  int64_t count = 0;
  int64_t first = 0;
};

// Applies the range cuts one after another. Each cut divides the part that the previous cut left; that part has the
// same length on all ranks.
RangeOfBlock CutRanges(const Program& program, int64_t rank, const Buffer& buffer, int64_t block) {
  RangeOfBlock range = {block, block, 0};
  for (const RangeCut& cut : buffer.shard().ranges()) {
    const int64_t parts = cut.block() > 0 ? cut.block() : AxisSize(program.mesh(), cut.axis());
    range.part = (range.part + parts - 1) / parts;
    const int64_t skipped = AxisCoordinate(program.mesh(), rank, cut.axis()) % parts * range.part;
    range.first += skipped;
    range.count = std::clamp<int64_t>(range.count - skipped, 0, range.part);
  }
  return range;
}

}  // namespace

absl::StatusOr<TensorPiece> PieceOfBuffer(const Program& program, int64_t rank, const Buffer& buffer) {
  const LogicalTensor& tensor = program.tensors(buffer.tensor());
  const auto refuse = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", Quoted(buffer.name()), " of tensor ", Quoted(tensor.name()), ": ", what...));
  };
  const auto& padded = tensor.padded_shape_size() == tensor.shape_size() ? tensor.padded_shape() : tensor.shape();
  TensorPiece piece;
  for (const int64_t extent : padded) piece.dimensions.push_back({{0, extent}});
  for (const DimensionCut& cut : buffer.shard().dimensions()) {
    if (cut.dimension() < 0 || cut.dimension() >= padded.size()) {
      return refuse("its shard cuts dimension ", cut.dimension(), " of ", padded.size());
    }
    const int64_t parts = AxisSize(program.mesh(), cut.axis());
    if (!CutDimension(std::max<int64_t>(1, cut.runs()), parts, AxisCoordinate(program.mesh(), rank, cut.axis()),
                      piece.dimensions[cut.dimension()])) {
      return refuse("axis ", cut.axis(), " of ", parts, " does not divide dimension ", cut.dimension(), " of shape [",
                    absl::StrJoin(padded, ", "), "]");
    }
  }
  const int64_t block = BlockElements(piece);
  const int64_t elements = Product(buffer.shape());
  const RangeOfBlock range = CutRanges(program, rank, buffer, block);
  if (elements != range.part) {
    return refuse("it has ", elements, " elements; the rank's part of a block of ", block, " has ", range.part);
  }
  piece.first = range.first;
  // Remove the padding. It is in the last rows, so it is at the end of the block.
  if (!padded.empty()) {
    Intervals rows;
    for (const IndexInterval& interval : piece.dimensions[0]) {
      Append(rows, {interval.begin, std::min(interval.end, tensor.shape(0))});
    }
    piece.dimensions[0] = std::move(rows);
  }
  const int64_t unpadded = BlockElements(piece);
  piece.first = std::min(piece.first, unpadded);
  piece.count = std::min(range.count, unpadded - piece.first);
  return piece;
}

int64_t FirstElementOf(const Program& program, int64_t rank, const Buffer& buffer) {
  const LogicalTensor& tensor = program.tensors(buffer.tensor());
  const auto& padded = tensor.padded_shape_size() == tensor.shape_size() ? tensor.padded_shape() : tensor.shape();
  int64_t part = 0, parts = 1;
  for (const DimensionCut& cut : buffer.shard().dimensions()) {
    const int64_t size = AxisSize(program.mesh(), cut.axis());
    part = part * size + AxisCoordinate(program.mesh(), rank, cut.axis());
    parts *= size;
  }
  const int64_t block = Product(absl::MakeConstSpan(padded.data(), padded.size())) / parts;
  return part * block + CutRanges(program, rank, buffer, block).first;
}

TensorPiece WholePiece(absl::Span<const int64_t> shape) {
  TensorPiece piece;
  for (const int64_t extent : shape) {
    Append(piece.dimensions.emplace_back(), {0, extent});
  }
  piece.count = Product(shape);
  return piece;
}

absl::Status CheckPiece(const TensorPiece& piece, absl::Span<const int64_t> shape) {
  if (piece.dimensions.size() != shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(piece.dimensions.size(), " dimensions are given for a tensor that has ", shape.size()));
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t end = 0;
    for (const IndexInterval& interval : piece.dimensions[d]) {
      if (interval.begin < end || interval.end <= interval.begin || interval.end > shape[d]) {
        return absl::InvalidArgumentError(absl::StrCat("dimension ", d, ": indices ", interval.begin, " to ",
                                                       interval.end, " of ", shape[d],
                                                       "; they must be inside, ascending and not empty"));
      }
      end = interval.end;
    }
  }
  const int64_t block = BlockElements(piece);
  if (piece.first < 0 || piece.count < 0 || piece.first > block || piece.count > block - piece.first) {
    return absl::InvalidArgumentError(
        absl::StrCat(piece.count, " elements from ", piece.first, " on do not lie in a block of ", block));
  }
  return absl::OkStatus();
}

std::vector<TensorRun> RunsOf(const TensorPiece& piece, absl::Span<const int64_t> shape) {
  std::vector<TensorRun> runs;
  if (piece.count == 0) return runs;
  // The dimensions after `last` are whole; `inner` is the product of their extents.
  int last = static_cast<int>(shape.size()) - 1;
  int64_t inner = 1;
  while (last >= 0 && Length(piece.dimensions[last]) == shape[last]) inner *= shape[last--];
  if (last < 0) return {{piece.first, 0, piece.count}};
  const Intervals& own = piece.dimensions[last];
  const int64_t row = Length(own) * inner;
  for (int64_t r = piece.first / row; r * row < piece.first + piece.count; ++r) {
    // Find the row's indices in the earlier dimensions. They give the place where the row begins in the tensor.
    int64_t base = 0, stride = inner * shape[last], rest = r;
    for (int d = last - 1; d >= 0; --d) {
      const int64_t length = Length(piece.dimensions[d]);
      Intervals index;
      AppendSlice(piece.dimensions[d], rest % length, 1, index);
      base += index[0].begin * stride;
      rest /= length;
      stride *= shape[d];
    }
    int64_t position = r * row - piece.first;
    for (const IndexInterval& interval : own) {
      const int64_t length = (interval.end - interval.begin) * inner;
      const int64_t begin = std::max<int64_t>(0, -position);
      const int64_t count = std::min(length, piece.count - position) - begin;
      const TensorRun run = {base + interval.begin * inner + begin, position + begin, count};
      position += length;
      if (count <= 0) continue;
      if (!runs.empty() && runs.back().logical + runs.back().count == run.logical) {
        runs.back().count += count;
      } else {
        runs.push_back(run);
      }
    }
  }
  return runs;
}

}  // namespace weft::exec
