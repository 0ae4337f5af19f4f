#include "compiler/segments/state_shards.h"

#include "proto/util/mesh.h"

namespace weft {

StateShards StateShardsOf(const Plan& plan) {
  const int64_t data = AxisSize(plan.mesh(), "data");
  const int64_t members = plan.zero().group() > 0 ? plan.zero().group() : data;
  if (plan.zero().stage() == 0 || members == 1) return {};
  const Zero& zero = plan.zero();
  StateShards shards{zero.stage(), members, members < data ? members : 0};
  if (zero.reshard() == Zero::NEVER) shards.stage = 2;
  if (zero.reshard() == Zero::LAYERS) shards.kept_layers = {zero.kept_layers().begin(), zero.kept_layers().end()};
  shards.keep_for_backward = zero.reshard() == Zero::AFTER_BACKWARD;
  if (zero.has_prefetch()) shards.prefetch = zero.prefetch();
  return shards;
}

}  // namespace weft
