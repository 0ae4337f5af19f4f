// A group of ranks (rule P8) as an expression on the coordinates of its members.
#ifndef WEFT_SIMULATOR_NETWORK_GROUP_FORM_H_
#define WEFT_SIMULATOR_NETWORK_GROUP_FORM_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// The coordinates on one axis of the mesh that take part.
struct AxisPart {
  enum Kind : uint8_t { kOwn, kAll, kListed, kBlock, kStride };
  Kind kind = kOwn;
  // Of kBlock and kStride.
  int64_t size = 0;
  // Of kListed, ascending.
  std::vector<int64_t> listed;

  friend auto operator<=>(const AxisPart&, const AxisPart&) = default;
};

// By axis of the mesh.
using GroupForm = std::vector<AxisPart>;

// The lowest and the highest coordinates of the group of a rank with the coordinates `own`: those of its lowest and its
// highest member.
std::vector<int64_t> LowestCoordinates(const GroupForm& form, std::vector<int64_t> own);
std::vector<int64_t> HighestCoordinates(const Mesh& mesh, const GroupForm& form, std::vector<int64_t> own);

// Whether a rank with these coordinates is in a group of this form: they are in all lists.
bool TakesPart(const GroupForm& form, const std::vector<int64_t>& coordinates);

// How many members a group has.
int64_t FormSize(const Mesh& mesh, const GroupForm& form);

// The members of the group of `rank`, ascending.
std::vector<int64_t> FormMembers(const Mesh& mesh, int64_t rank, const GroupForm& form);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_GROUP_FORM_H_
