#include "proto/util/mesh.h"

#include <algorithm>

namespace weft {
namespace {

int AxisIndex(const Mesh& mesh, absl::string_view axis) {
  for (int i = 0; i < mesh.axes_size(); ++i) {
    if (mesh.axes(i).name() == axis) return i;
  }
  return -1;
}

}  // namespace

int64_t MeshRanks(const Mesh& mesh) {
  int64_t ranks = 1;
  for (const MeshAxis& axis : mesh.axes()) ranks *= axis.size();
  return ranks;
}

int64_t AxisSize(const Mesh& mesh, absl::string_view axis) {
  const int i = AxisIndex(mesh, axis);
  return i < 0 ? 1 : mesh.axes(i).size();
}

std::vector<int64_t> RankCoordinates(const Mesh& mesh, int64_t rank) {
  std::vector<int64_t> coordinates;
  coordinates.reserve(mesh.axes_size());
  for (const MeshAxis& axis : mesh.axes()) {
    coordinates.push_back(rank % axis.size());
    rank /= axis.size();
  }
  return coordinates;
}

int64_t CoordinatesRank(const Mesh& mesh, const std::vector<int64_t>& coordinates) {
  int64_t rank = 0;
  for (int i = mesh.axes_size() - 1; i >= 0; --i) rank = rank * mesh.axes(i).size() + coordinates[i];
  return rank;
}

int64_t AxisCoordinate(const Mesh& mesh, int64_t rank, absl::string_view axis) {
  const int i = AxisIndex(mesh, axis);
  return i < 0 ? 0 : RankCoordinates(mesh, rank)[i];
}

int64_t PeerRank(const Mesh& mesh, int64_t rank, const Peer& peer) {
  std::vector<int64_t> coordinates = RankCoordinates(mesh, rank);
  for (const Coordinate& at : peer.at()) {
    if (const int i = AxisIndex(mesh, at.axis()); i >= 0) coordinates[i] = at.index();
  }
  return CoordinatesRank(mesh, coordinates);
}

std::vector<int64_t> SubsetCoordinates(const AxisSubset& subset, int64_t size, int64_t own) {
  if (subset.indices_size() > 0) return {subset.indices().begin(), subset.indices().end()};
  int64_t begin = 0, end = size, step = 1;
  if (subset.block() > 0) {
    begin = own / subset.block() * subset.block();
    end = begin + subset.block();
  } else if (subset.stride() > 0) {
    begin = own % subset.stride();
    step = subset.stride();
  }
  std::vector<int64_t> coordinates;
  for (int64_t c = begin; c < end; c += step) coordinates.push_back(c);
  return coordinates;
}

int64_t SubsetSize(const AxisSubset& subset, int64_t size) {
  if (subset.indices_size() > 0) return subset.indices_size();
  if (subset.block() > 0) return subset.block();
  return subset.stride() > 0 ? size / subset.stride() : size;
}

std::vector<int64_t> GroupMembers(const Mesh& mesh, int64_t rank, const Group& group) {
  std::vector<std::vector<int64_t>> members = {RankCoordinates(mesh, rank)};
  for (const AxisSubset& subset : group.axes()) {
    const int i = AxisIndex(mesh, subset.axis());
    if (i < 0) continue;
    const std::vector<int64_t> coordinates = SubsetCoordinates(subset, mesh.axes(i).size(), members[0][i]);
    std::vector<std::vector<int64_t>> expanded;
    for (const std::vector<int64_t>& member : members) {
      for (const int64_t c : coordinates) {
        expanded.push_back(member);
        expanded.back()[i] = c;
      }
    }
    members = std::move(expanded);
  }
  std::vector<int64_t> ranks;
  ranks.reserve(members.size());
  for (const std::vector<int64_t>& member : members) ranks.push_back(CoordinatesRank(mesh, member));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

int64_t GroupSize(const Mesh& mesh, const Group& group) {
  int64_t size = 1;
  for (const AxisSubset& subset : group.axes()) size *= SubsetSize(subset, AxisSize(mesh, subset.axis()));
  return size;
}

int64_t ShiftAt(const Mesh& mesh, int64_t rank, const Shift& shift) {
  int64_t sum = 0;
  for (const ShiftTerm& term : shift.terms()) sum += AxisCoordinate(mesh, rank, term.axis()) * term.stride();
  return sum;
}

bool IsFirstOn(const Mesh& mesh, int64_t rank, const google::protobuf::RepeatedPtrField<std::string>& axes) {
  return std::all_of(axes.begin(), axes.end(),
                     [&](const std::string& axis) { return AxisCoordinate(mesh, rank, axis) == 0; });
}

bool TemplateMatches(const Mesh& mesh, const Template& t, int64_t rank) {
  return std::all_of(t.pins().begin(), t.pins().end(),
                     [&](const Coordinate& pin) { return AxisCoordinate(mesh, rank, pin.axis()) == pin.index(); });
}

int TemplateOfRank(const Program& program, int64_t rank) {
  for (int i = 0; i < program.templates_size(); ++i) {
    if (TemplateMatches(program.mesh(), program.templates(i), rank)) return i;
  }
  return -1;
}

}  // namespace weft
