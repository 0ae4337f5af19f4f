#include "planner/least_state_bytes.h"

#include <algorithm>

#include "proto/util/mesh.h"
#include "proto/util/units.h"

namespace weft::planner {

int64_t LeastStateBytes(const Recipe& recipe, const Plan& plan, int64_t parameters) {
  const Mesh& mesh = plan.mesh();
  int64_t holders = 1;
  for (const char* axis : {"x", "y", "z", "pipe"}) holders *= std::max<int64_t>(1, AxisSize(mesh, axis));
  const int64_t data = std::max<int64_t>(1, AxisSize(mesh, "data"));
  const int64_t group = plan.zero().group() > 0 ? plan.zero().group() : data;
  const Precision& precision = plan.precision();
  int64_t states = 0;
  if (!plan.offload().optimizer()) {
    if (precision.master() != precision.params()) states += DTypeBytes(precision.master());
    if (recipe.has_adamw()) states += 2 * DTypeBytes(precision.moments());
  }
  const __int128 of_parameters = static_cast<__int128>(parameters) * DTypeBytes(precision.params()) /
                                 (plan.zero().stage() >= 3 ? group : 1) / holders;
  const __int128 of_states =
      static_cast<__int128>(parameters) * states / (plan.zero().stage() >= 1 ? group : 1) / holders;
  return static_cast<int64_t>(std::min<__int128>(of_parameters + of_states, INT64_MAX));
}

}  // namespace weft::planner
