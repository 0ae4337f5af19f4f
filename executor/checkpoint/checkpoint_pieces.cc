#include "executor/checkpoint/checkpoint_pieces.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

bool IsPart(const std::string& suffix) {
  return std::any_of(std::begin(kStateParts), std::end(kStateParts),
                     [&](StatePart part) { return StatePartSuffix(part) == suffix; });
}

// True if no extent is negative and the product of the extents fits into an int64.
bool IsShape(const google::protobuf::RepeatedField<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(extent, 1), &elements)) return false;
  }
  return true;
}

}  // namespace

std::string PieceEntryName(const std::string& tensor, absl::string_view part) {
  return absl::StrCat(tensor, part, "#piece");
}

void SetPiece(const TensorPiece& piece, CheckpointPiece* out) {
  for (const std::vector<IndexInterval>& intervals : piece.dimensions) {
    CheckpointIndices* indices = out->add_dimensions();
    for (const IndexInterval& interval : intervals) {
      indices->add_begin(interval.begin);
      indices->add_end(interval.end);
    }
  }
  out->set_first(piece.first);
  out->set_count(piece.count);
}

TensorPiece GetPiece(const CheckpointPiece& piece) {
  TensorPiece result;
  for (const CheckpointIndices& indices : piece.dimensions()) {
    std::vector<IndexInterval>& intervals = result.dimensions.emplace_back();
    for (int i = 0; i < indices.begin_size(); ++i) intervals.push_back({indices.begin(i), indices.end(i)});
  }
  result.first = piece.first();
  result.count = piece.count();
  return result;
}

absl::Status CheckPieces(const CheckpointManifest& manifest) {
  std::set<std::string> files;
  for (const CheckpointFile& file : manifest.files()) files.insert(file.name());
  for (int i = 0; i < manifest.pieces_size(); ++i) {
    const CheckpointPiece& piece = manifest.pieces(i);
    const std::string field = absl::StrCat("pieces[", i, "]");
    if (piece.tensor() < 0 || piece.tensor() >= manifest.tensors_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".tensor = ", piece.tensor(), ", of ", manifest.tensors_size(), " tensors"));
    }
    if (!IsPart(piece.part())) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".part = ", Quoted(piece.part()), "; allowed: '', '#moment1', '#moment2'"));
    }
    if (files.count(piece.file()) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".file = ", Quoted(piece.file()), " is not in files"));
    }
    for (const CheckpointIndices& indices : piece.dimensions()) {
      if (indices.begin_size() == indices.end_size()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".dimensions: ", indices.begin_size(), " begins and ", indices.end_size(), " ends"));
    }
    const auto& shape = manifest.tensors(piece.tensor()).shape();
    if (!IsShape(shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors[", piece.tensor(),
                       "].shape is not valid; extents must be at least 0, and their product must fit in 63 bits"));
    }
    if (const absl::Status status = CheckPiece(GetPiece(piece), shape); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorData> JoinPieces(const CheckpointManifest& manifest,
                                      absl::Span<const CheckpointPiece* const> pieces,
                                      const std::function<absl::StatusOr<TensorData>(const CheckpointPiece&)>& read) {
  if (pieces.empty()) return absl::InternalError("a tensor of no pieces");
  const CheckpointTensor& tensor = manifest.tensors(pieces[0]->tensor());
  const auto lost = [&](const auto&... what) {
    return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor.name() + pieces[0]->part()), ": ", what...));
  };
  // First checks that the pieces make up the tensor, then reads their bytes.
  std::vector<std::vector<TensorRun>> runs;
  std::vector<std::pair<int64_t, int64_t>> covered;
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape()) elements *= extent;
  for (const CheckpointPiece* piece : pieces) {
    runs.push_back(RunsOf(GetPiece(*piece), tensor.shape()));
    for (const TensorRun& run : runs.back()) covered.emplace_back(run.logical, run.count);
  }
  std::sort(covered.begin(), covered.end());
  int64_t next = 0;
  for (const auto& [first, count] : covered) {
    if (first != next)
      return lost("element ", std::min(first, next), first < next ? " is in two" : " is in none", " of its pieces");
    next += count;
  }
  if (next != elements) return lost("element ", next, " is in none of its pieces");
  TensorData whole;
  whole.shape.assign(tensor.shape().begin(), tensor.shape().end());
  for (size_t p = 0; p < pieces.size(); ++p) {
    WEFT_ASSIGN_OR_RETURN(const TensorData data, read(*pieces[p]));
    const int64_t size = DTypeBytes(data.dtype);
    if (p == 0) {
      whole.dtype = data.dtype;
      whole.bytes.resize(elements * size);
    }
    if (data.dtype != whole.dtype || data.shape != std::vector<int64_t>{pieces[p]->count()} ||
        static_cast<int64_t>(data.bytes.size()) != pieces[p]->count() * size) {
      return lost("the piece in ", pieces[p]->file(), " is not ", pieces[p]->count(), " elements of ",
                  std::string(DTypeName(whole.dtype)));
    }
    for (const TensorRun& run : runs[p]) {
      std::memcpy(whole.bytes.data() + run.logical * size, data.bytes.data() + run.position * size, run.count * size);
    }
  }
  return whole;
}

}  // namespace weft::exec
