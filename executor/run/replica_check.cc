#include "executor/run/replica_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/interpreter/control.h"
#include "executor/program/tensor_piece.h"
#include "proto/io/crc32c.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// Bytes that are read from the device at a time.
constexpr int64_t kChunkBytes = int64_t{16} << 20;
constexpr size_t kMaxRanksNamed = 8;

template <typename T>
uint32_t Extend(uint32_t crc, const T& value) {
  return Crc32cExtend(crc, absl::string_view(reinterpret_cast<const char*>(&value), sizeof value));
}

uint32_t ChecksumOf(const TensorPiece& piece) {
  uint32_t crc = Crc32c("");
  for (const std::vector<IndexInterval>& dimension : piece.dimensions) {
    crc = Extend(crc, static_cast<int64_t>(dimension.size()));
    for (const IndexInterval& interval : dimension) crc = Extend(Extend(crc, interval.begin), interval.end);
  }
  return Extend(Extend(crc, piece.first), piece.count);
}

std::string Names(const std::vector<int>& ranks) {
  const size_t shown = std::min(ranks.size(), kMaxRanksNamed);
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks.begin(), ranks.begin() + shown, ", "),
                      shown < ranks.size() ? absl::StrCat(" and ", ranks.size() - shown, " more") : "");
}

}  // namespace

absl::StatusOr<std::vector<WeightChecksum>> WeightChecksums(const Program& program, int rank, const Arena& arena) {
  std::vector<WeightChecksum> sums;
  const int index = TemplateOfRank(program, rank);
  if (index < 0) return absl::InvalidArgumentError(absl::StrCat("the program has no rank ", rank));
  std::vector<char> chunk;
  for (const Buffer& buffer : program.templates(index).buffers()) {
    if (buffer.role() != PARAM && buffer.role() != MASTER) continue;
    WEFT_ASSIGN_OR_RETURN(const TensorPiece piece, PieceOfBuffer(program, rank, buffer));
    WeightChecksum sum = {buffer.tensor(), buffer.role(), ChecksumOf(piece), buffer.dtype(), Crc32c("")};
    const int64_t bytes = piece.count * DTypeBytes(buffer.dtype());
    for (int64_t done = 0; done < bytes; done += kChunkBytes) {
      chunk.resize(static_cast<size_t>(std::min(kChunkBytes, bytes - done)));
      WEFT_RETURN_IF_ERROR(
          arena.device().CopyNow(chunk.data(), arena.Data(buffer) + done, static_cast<int64_t>(chunk.size())));
      sum.bytes = Crc32cExtend(sum.bytes, absl::string_view(chunk.data(), chunk.size()));
    }
    sums.push_back(sum);
  }
  return sums;
}

absl::Status CompareReplicas(const Program& program, int64_t step,
                             const std::vector<std::vector<WeightChecksum>>& ranks) {
  // For all copies that are replicas of each other (same tensor, role, piece and dtype): the ranks that hold each
  // checksum.
  std::map<std::tuple<int32_t, int32_t, uint32_t, int32_t>, std::map<uint32_t, std::vector<int>>> replicas;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const WeightChecksum& sum : ranks[rank]) {
      std::vector<int>& holders = replicas[{sum.tensor, sum.role, sum.piece, sum.dtype}][sum.bytes];
      if (holders.empty() || holders.back() != static_cast<int>(rank)) holders.push_back(static_cast<int>(rank));
    }
  }
  int64_t differing = 0;
  std::string first;
  for (const auto& [what, sums] : replicas) {
    if (sums.size() < 2) continue;
    if (differing++ > 0) continue;
    const auto [tensor, role, piece, dtype] = what;
    // Name the smallest group of equal replicas first: it is the most likely to be wrong.
    std::vector<std::pair<uint32_t, std::vector<int>>> parties(sums.begin(), sums.end());
    std::stable_sort(parties.begin(), parties.end(),
                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    std::vector<std::string> texts;
    for (const auto& [sum, holders] : parties) {
      texts.push_back(
          absl::StrCat(Names(holders), holders.size() == 1 ? " holds " : " hold ", absl::Hex(sum, absl::kZeroPad8)));
    }
    const bool known = tensor >= 0 && tensor < program.tensors_size();
    first = absl::StrCat("tensor '", known ? program.tensors(tensor).name() : absl::StrCat(tensor), "' (",
                         BufferRole_Name(static_cast<BufferRole>(role)), "): ", absl::StrJoin(texts, ", "));
  }
  if (differing == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("replicas differ after step ", step, ": ", first,
                                          differing == 1 ? "" : absl::StrCat("; and ", differing - 1, " more")));
}

absl::Status CheckReplicas(const Program& program, int64_t step, const Arena& arena, Endpoint& endpoint,
                           std::chrono::nanoseconds timeout) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<WeightChecksum> mine, WeightChecksums(program, endpoint.rank(), arena));
  std::string bytes(mine.size() * sizeof(WeightChecksum), '\0');
  if (!mine.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherBytes(endpoint, bytes, timeout));
  if (endpoint.rank() != 0) return absl::OkStatus();
  std::vector<std::vector<WeightChecksum>> ranks;
  for (const std::string& of_rank : all) {
    std::vector<WeightChecksum>& sums = ranks.emplace_back(of_rank.size() / sizeof(WeightChecksum));
    if (!sums.empty()) std::memcpy(sums.data(), of_rank.data(), sums.size() * sizeof(WeightChecksum));
  }
  return CompareReplicas(program, step, ranks);
}

absl::Status FlipWeightBit(const Program& program, int rank, const Arena& arena) {
  const int index = TemplateOfRank(program, rank);
  if (index < 0) return absl::InvalidArgumentError(absl::StrCat("the program has no rank ", rank));
  for (const Buffer& buffer : program.templates(index).buffers()) {
    if (buffer.role() != PARAM || buffer.bytes() == 0) continue;
    char byte = 0;
    WEFT_RETURN_IF_ERROR(arena.device().CopyNow(&byte, arena.Data(buffer), 1));
    byte = static_cast<char>(byte ^ 1);
    return arena.device().CopyNow(arena.Data(buffer), &byte, 1);
  }
  return absl::NotFoundError(absl::StrCat("rank ", rank, " holds no weight"));
}

absl::Status CanCheckReplicas(const Program& program) {
  if (program.steps_per_repetition() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--check-replicas: schedule '", program.schedule(),
                   "' updates the weights without a flush, so replicas are never at the same step"));
}

}  // namespace weft::exec
