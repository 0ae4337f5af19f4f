// The form of a group of ranks (rule P8): the coordinates of its members on every axis, relative to one member.
#ifndef WEFT_SIMULATOR_NETWORK_GROUP_FORM_H_
#define WEFT_SIMULATOR_NETWORK_GROUP_FORM_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// The coordinates of a group on one axis of the mesh.
struct AxisPart {
  enum Kind : uint8_t { kOwn, kAll, kListed, kBlock, kStride };
  Kind kind = kOwn;
  // Size of the block, or the stride. Only for kBlock and kStride.
  int64_t size = 0;
  // The coordinates, ascending. Only for kListed.
  std::vector<int64_t> listed;

  friend auto operator<=>(const AxisPart&, const AxisPart&) = default;
};

// One part for each axis of the mesh.
using GroupForm = std::vector<AxisPart>;

// Returns the coordinates of the lowest member of a group. `own` are the coordinates of any rank in the group.
std::vector<int64_t> LowestCoordinates(const GroupForm& form, std::vector<int64_t> own);

// True if a rank with these coordinates is in a group of this form, i.e. if each listed axis has the rank's coordinate
// in its list.
bool TakesPart(const GroupForm& form, const std::vector<int64_t>& coordinates);

// Returns the number of members of a group.
int64_t FormSize(const Mesh& mesh, const GroupForm& form);

// Returns the members of the group of `rank`, ascending.
std::vector<int64_t> FormMembers(const Mesh& mesh, int64_t rank, const GroupForm& form);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_GROUP_FORM_H_
