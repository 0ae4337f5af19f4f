#include "compiler/state_shards.h"

#include "proto/mesh.h"

namespace weft {

StateShards StateShardsOf(const Plan& plan) {
  const int64_t data = AxisSize(plan.mesh(), "data");
  const int64_t members = plan.zero().group() > 0 ? plan.zero().group() : data;
  if (plan.zero().stage() == 0 || members == 1) return {};
  return {plan.zero().stage(), members, members < data ? members : 0, data};
}

}  // namespace weft
