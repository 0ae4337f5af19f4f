#include "planner/search/popular_choices.h"

#include <algorithm>

#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

bool IsAlone(const Plan& plan, absl::string_view axis) {
  return std::all_of(plan.mesh().axes().begin(), plan.mesh().axes().end(),
                     [&](const MeshAxis& a) { return a.name() == axis || a.size() == 1; });
}

// Megatron's tensor parallelism over all devices of a node, and nothing that shards weights or gradients over replicas.
bool IsTensorInNode(const Plan& plan, int64_t per_node) {
  return per_node > 1 && AxisSize(plan.mesh(), "x") == per_node && AxisSize(plan.mesh(), "y") == 1 &&
         AxisSize(plan.mesh(), "z") == 1 && plan.zero().stage() <= 1;
}

constexpr PopularChoice kPopularChoices[] = {
    {"replicas alone",
     [](const Plan& plan, int64_t) {
       return AxisSize(plan.mesh(), "data") > 1 && IsAlone(plan, "data") && plan.zero().stage() == 0;
     }},
    {"ZeRO 3 alone",
     [](const Plan& plan, int64_t) {
       return AxisSize(plan.mesh(), "data") > 1 && IsAlone(plan, "data") && plan.zero().stage() == 3;
     }},
    {"tensor parallelism in each node, replicas across",
     [](const Plan& plan, int64_t per_node) {
       return IsTensorInNode(plan, per_node) && AxisSize(plan.mesh(), "pipe") == 1;
     }},
    {"tensor parallelism in each node, a pipeline across",
     [](const Plan& plan, int64_t per_node) {
       return IsTensorInNode(plan, per_node) && AxisSize(plan.mesh(), "pipe") > 1;
     }},
};

}  // namespace

absl::Span<const PopularChoice> PopularChoices() { return kPopularChoices; }

}  // namespace weft::planner
