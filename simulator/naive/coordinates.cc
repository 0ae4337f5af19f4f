#include "simulator/naive/coordinates.h"

#include <algorithm>

namespace weft::sim::naive {

int64_t Ranks(const Program& program) {
  int64_t ranks = 1;
  for (const MeshAxis& axis : program.mesh().axes()) ranks *= axis.size();
  return ranks;
}

Coordinates CoordinatesOf(const Program& program, int64_t rank) {
  Coordinates c;
  for (const MeshAxis& axis : program.mesh().axes()) {
    c[axis.name()] = rank % axis.size();
    rank /= axis.size();
  }
  return c;
}

int64_t RankOf(const Program& program, const Coordinates& coordinates) {
  int64_t rank = 0;
  int64_t stride = 1;
  for (const MeshAxis& axis : program.mesh().axes()) {
    rank += stride * coordinates.at(axis.name());
    stride *= axis.size();
  }
  return rank;
}

const Template& TemplateOf(const Program& program, int64_t rank) {
  const Coordinates c = CoordinatesOf(program, rank);
  for (const Template& t : program.templates()) {
    bool match = true;
    for (const Coordinate& pin : t.pins()) match = match && c.at(pin.axis()) == pin.index();
    if (match) return t;
  }
  return program.templates(0);
}

int64_t PeerOf(const Program& program, int64_t rank, const Action& action) {
  Coordinates c = CoordinatesOf(program, rank);
  for (const Coordinate& at : action.peer().at()) c[at.axis()] = at.index();
  return RankOf(program, c);
}

// Rule P8: a member has the caller's coordinates on all axes that the group does not name. On a named axis, the group
// lists the members' coordinates, or takes the caller's block, or the same place in every block, or all coordinates.
std::vector<int64_t> MembersOf(const Program& program, int64_t rank, const Group& group) {
  const Coordinates own = CoordinatesOf(program, rank);
  std::vector<int64_t> members;
  for (int64_t other = 0; other < Ranks(program); ++other) {
    const Coordinates c = CoordinatesOf(program, other);
    bool member = true;
    for (const MeshAxis& axis : program.mesh().axes()) {
      const AxisSubset* named = nullptr;
      for (const AxisSubset& subset : group.axes()) {
        if (subset.axis() == axis.name()) named = &subset;
      }
      if (named == nullptr) {
        member = member && c.at(axis.name()) == own.at(axis.name());
      } else if (named->indices_size() > 0) {
        member = member && std::count(named->indices().begin(), named->indices().end(), c.at(axis.name())) > 0;
      } else if (named->block() > 0) {
        member = member && c.at(axis.name()) / named->block() == own.at(axis.name()) / named->block();
      } else if (named->stride() > 0) {
        member = member && c.at(axis.name()) % named->stride() == own.at(axis.name()) % named->stride();
      }
    }
    if (member) members.push_back(other);
  }
  return members;
}

}  // namespace weft::sim::naive
