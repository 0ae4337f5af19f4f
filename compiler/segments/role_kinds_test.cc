#include "compiler/segments/role_kinds.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

std::vector<ir::Role> AllRoles() {
  std::vector<ir::Role> roles;
  for (uint32_t i = 0; i <= ir::getMaxEnumValForRole(); ++i) {
    if (const std::optional<ir::Role> role = ir::symbolizeRole(i)) roles.push_back(*role);
  }
  return roles;
}

// Roles and buffer roles of the same name correspond, and neither side distinguishes more than the other.
TEST(RoleKindsTest, BufferRolesAreRolesOfTheSameName) {
  std::set<BufferRole> met;
  for (const ir::Role role : AllRoles()) {
    const BufferRole buffer = BufferRoleOf(role);
    if (buffer == NO_ROLE) continue;
    std::string name = ir::stringifyRole(role).upper();
    EXPECT_EQ(BufferRole_Name(buffer), name);
    EXPECT_TRUE(met.insert(buffer).second) << name << " is two roles";
  }
  for (int value = BufferRole_MIN; value <= BufferRole_MAX; ++value) {
    if (!BufferRole_IsValid(value) || value == NO_ROLE) continue;
    // Post-validation adds these copies later, outside segments (post_validation.h).
    const bool kept = value == KEPT_WEIGHT || value == KEPT_MOMENT1 || value == KEPT_MOMENT2;
    EXPECT_EQ(met.count(static_cast<BufferRole>(value)), kept ? 0u : 1u) << BufferRole_Name(value);
  }
}

// The verifier classifies buffers by the names of their roles. Its classes of weights, gradients and states agree with
// the compiler's.
TEST(RoleKindsTest, ClassesAgreeWithBufferRoles) {
  for (const ir::Role role : AllRoles()) {
    const ir::BufferClass kind = BufferClassOf(role);
    const BufferRole buffer = BufferRoleOf(role);
    SCOPED_TRACE(ir::stringifyRole(role).str());
    EXPECT_EQ(kind == ir::BufferClass::Parameter, buffer == PARAM);
    EXPECT_EQ(kind == ir::BufferClass::Gradient, buffer == GRAD || buffer == GRAD_ACCUMULATOR);
    EXPECT_EQ(kind == ir::BufferClass::Optimizer,
              buffer == MASTER || buffer == MOMENT1 || buffer == MOMENT2 || buffer == LOSS_SCALE);
    const bool summed =
        buffer == LOCAL_LOSSES || buffer == LOSSES || buffer == LOCAL_NORMS || buffer == NORMS || buffer == NORM;
    const bool part =
        role == ir::Role::GradPart || role == ir::Role::GradAccumulatorPart || role == ir::Role::ParamPart;
    EXPECT_EQ(kind == ir::BufferClass::Communication, summed || part);
    // Boundary tensors are in flight, and values for a backward are saved. A workspace belongs to an action
    // (Workspace), or to the action's detached steps, which outlast it (Deferred).
    const bool boundary = role == ir::Role::Input || role == ir::Role::Output || role == ir::Role::InputGrad ||
                          role == ir::Role::OutputGrad;
    EXPECT_EQ(kind == ir::BufferClass::InFlightActivation, boundary);
    EXPECT_EQ(kind == ir::BufferClass::SavedActivation, role == ir::Role::Saved);
    EXPECT_EQ(kind == ir::BufferClass::SavedGradient, role == ir::Role::SavedGrad);
    EXPECT_EQ(kind == ir::BufferClass::Workspace, role == ir::Role::Workspace || role == ir::Role::Deferred);
  }
}

TEST(RoleKindsTest, ShardsOfWeightsGradientsAndStates) {
  TensorShards shards;
  for (const ir::Role role : AllRoles()) {
    const BufferRole buffer = BufferRoleOf(role);
    const Shard& shard = ShardOf(shards, role);
    SCOPED_TRACE(ir::stringifyRole(role).str());
    EXPECT_EQ(&shard == &shards.param, buffer == PARAM);
    EXPECT_EQ(&shard == &shards.grad, buffer == GRAD || buffer == GRAD_ACCUMULATOR);
    EXPECT_EQ(&shard == &shards.state, buffer != PARAM && buffer != GRAD && buffer != GRAD_ACCUMULATOR);
  }
}

}  // namespace
}  // namespace weft
