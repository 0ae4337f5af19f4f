// Ranks and coordinates of a mesh (rule P8). All functions expect a mesh and a program that passed validation: axis
// names exist and coordinates are in range.
#ifndef WEFT_PROTO_UTIL_MESH_H_
#define WEFT_PROTO_UTIL_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/program.pb.h"

namespace weft {

// Number of ranks; 1 for a mesh without axes.
int64_t MeshRanks(const Mesh& mesh);

// Size of an axis; 1 if the mesh does not list it.
int64_t AxisSize(const Mesh& mesh, absl::string_view axis);

// One coordinate per axis of the mesh, in mesh order (innermost first).
std::vector<int64_t> RankCoordinates(const Mesh& mesh, int64_t rank);
int64_t CoordinatesRank(const Mesh& mesh, const std::vector<int64_t>& coordinates);

// Coordinate of `rank` on `axis`; 0 if the mesh does not list it.
int64_t AxisCoordinate(const Mesh& mesh, int64_t rank, absl::string_view axis);

// Returns the rank that `peer` means, as seen from `rank`.
int64_t PeerRank(const Mesh& mesh, int64_t rank, const Peer& peer);

// SubsetCoordinates returns the coordinates on an axis that take part, ascending, as seen from coordinate `own`. `size`
// is the size of the axis. SubsetSize returns the number of these coordinates.
std::vector<int64_t> SubsetCoordinates(const AxisSubset& subset, int64_t size, int64_t own);
int64_t SubsetSize(const AxisSubset& subset, int64_t size);

// The members of `group` as seen from `rank`, ascending. They do not contain `rank` itself if the group lists
// coordinates and the coordinate of `rank` is not among them.
std::vector<int64_t> GroupMembers(const Mesh& mesh, int64_t rank, const Group& group);

// The number of members of `group`, which is the same for all ranks.
int64_t GroupSize(const Mesh& mesh, const Group& group);

// The value of `shift` at the coordinates of `rank`.
int64_t ShiftAt(const Mesh& mesh, int64_t rank, const Shift& shift);

// True if `rank` has coordinate 0 on all of these axes.
bool IsFirstOn(const Mesh& mesh, int64_t rank, const google::protobuf::RepeatedPtrField<std::string>& axes);

// True if `rank` has all pinned coordinates of `t`.
bool TemplateMatches(const Mesh& mesh, const Template& t, int64_t rank);

// Index of the first template that `rank` runs, or -1.
int TemplateOfRank(const Program& program, int64_t rank);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_MESH_H_
