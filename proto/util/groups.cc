#include "proto/util/groups.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace weft {
namespace {

std::string SubsetFault(const AxisSubset& subset, int64_t size) {
  int64_t last = -1;
  for (int64_t i : subset.indices()) {
    if (i <= last || i >= size) {
      return absl::StrCat("indices of axis ", subset.axis(), " must be ascending and below ", size);
    }
    last = i;
  }
  const int ways = (subset.indices_size() > 0) + (subset.block() != 0) + (subset.stride() != 0);
  if (ways > 1) {
    return absl::StrCat("group cuts axis ", subset.axis(), " in ", ways,
                        " ways; use only one of indices, block and stride");
  }
  for (const auto& [name, value] : {std::pair("block", subset.block()), std::pair("stride", subset.stride())}) {
    if (value < 0 || value > size || (value > 0 && size % value != 0)) {
      return absl::StrCat(name, " ", value, " of axis ", subset.axis(), " must divide the size of the axis, ", size);
    }
  }
  return "";
}

}  // namespace

std::string GroupFault(const Mesh& mesh, const Group& group) {
  absl::flat_hash_set<std::string> seen;
  for (const AxisSubset& subset : group.axes()) {
    const auto axis = std::find_if(mesh.axes().begin(), mesh.axes().end(),
                                   [&](const MeshAxis& a) { return a.name() == subset.axis(); });
    if (axis == mesh.axes().end()) {
      return absl::StrCat("group names axis '", subset.axis(), "', which the mesh does not have");
    }
    const std::string fault = SubsetFault(subset, axis->size());
    if (!fault.empty()) return fault;
    if (!seen.insert(subset.axis()).second) return absl::StrCat("group names axis ", subset.axis(), " twice");
  }
  return "";
}

}  // namespace weft
