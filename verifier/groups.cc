// Groups of ranks (rule P8.group), for collective actions and collective steps.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "proto/util/mesh.h"
#include "verifier/index.h"

namespace weft::verify {

std::string GroupFaultIn(const Program& program, const Template& t, const Group& group) {
  for (const AxisSubset& subset : group.axes()) {
    if (subset.indices_size() == 0 || subset.indices_size() == AxisSize(program.mesh(), subset.axis())) continue;
    const auto pin =
        std::find_if(t.pins().begin(), t.pins().end(), [&](const Coordinate& c) { return c.axis() == subset.axis(); });
    if (pin == t.pins().end()) {
      return absl::StrCat("group picks coordinates of axis ", subset.axis(), ", which the template does not pin");
    }
    if (std::find(subset.indices().begin(), subset.indices().end(), pin->index()) == subset.indices().end()) {
      return absl::StrCat("the rank itself, at ", pin->axis(), "=", pin->index(), ", is not in its group");
    }
  }
  return "";
}

std::string CommunicatorKey(const Program& program, const Group& group, Purpose purpose) {
  std::string key;
  for (const MeshAxis& axis : program.mesh().axes()) {
    for (const AxisSubset& subset : group.axes()) {
      const int64_t size = axis.size(), members = SubsetSize(subset, size);
      if (subset.axis() != axis.name() || members == 1) continue;
      absl::StrAppend(&key, axis.name());
      int64_t block = subset.block(), stride = subset.stride();
      // Indices may form a block or a stride.
      if (subset.indices_size() > 1 && size % members == 0) {
        const auto steps_by = [&](int64_t step) {
          for (int i = 1; i < subset.indices_size(); ++i) {
            if (subset.indices(i) - subset.indices(i - 1) != step) return false;
          }
          return true;
        };
        if (steps_by(1) && subset.indices(0) % members == 0) block = members;
        if (steps_by(size / members) && subset.indices(0) < size / members) stride = size / members;
      }
      if (members == size) {
        absl::StrAppend(&key, "=* ");
      } else if (block > 0) {
        absl::StrAppend(&key, "/", block, " ");
      } else if (stride > 0) {
        absl::StrAppend(&key, "%", stride, " ");
      } else {
        absl::StrAppend(&key, "=", absl::StrJoin(subset.indices(), ","), " ");
      }
    }
  }
  return absl::StrCat(key, Purpose_Name(purpose));
}

int64_t GroupSize(const Program& program, const Group& group) { return weft::GroupSize(program.mesh(), group); }

}  // namespace weft::verify
