#include "compiler/segments/role_kinds.h"

namespace weft {

ir::BufferClass BufferClassOf(ir::Role role) {
  switch (role) {
    case ir::Role::Input:
    case ir::Role::Output:
    case ir::Role::OutputGrad:
    case ir::Role::InputGrad:
      return ir::BufferClass::InFlightActivation;
    case ir::Role::Saved:
      return ir::BufferClass::SavedActivation;
    case ir::Role::SavedGrad:
      return ir::BufferClass::SavedGradient;
    case ir::Role::Param:
      return ir::BufferClass::Parameter;
    case ir::Role::Grad:
    case ir::Role::GradAccumulator:
      return ir::BufferClass::Gradient;
    case ir::Role::Master:
    case ir::Role::Moment1:
    case ir::Role::Moment2:
      return ir::BufferClass::Optimizer;
    case ir::Role::LocalLosses:
    case ir::Role::Losses:
    case ir::Role::LocalNorms:
    case ir::Role::Norms:
    case ir::Role::Norm:
    case ir::Role::GradPart:
    case ir::Role::GradAccumulatorPart:
    case ir::Role::ParamPart:
      return ir::BufferClass::Communication;
    case ir::Role::LossScale:
      return ir::BufferClass::Optimizer;
    case ir::Role::Workspace:
    case ir::Role::Deferred:
      return ir::BufferClass::Workspace;
  }
  return ir::BufferClass::Workspace;
}

BufferRole BufferRoleOf(ir::Role role) {
  switch (role) {
    case ir::Role::Param:
      return PARAM;
    case ir::Role::Master:
      return MASTER;
    case ir::Role::Grad:
      return GRAD;
    case ir::Role::GradAccumulator:
      return GRAD_ACCUMULATOR;
    case ir::Role::Moment1:
      return MOMENT1;
    case ir::Role::Moment2:
      return MOMENT2;
    case ir::Role::LocalLosses:
      return LOCAL_LOSSES;
    case ir::Role::Losses:
      return LOSSES;
    case ir::Role::LocalNorms:
      return LOCAL_NORMS;
    case ir::Role::Norms:
      return NORMS;
    case ir::Role::Norm:
      return NORM;
    case ir::Role::LossScale:
      return LOSS_SCALE;
    default:
      return NO_ROLE;
  }
}

const Shard& ShardOf(const TensorShards& shards, ir::Role role) {
  if (role == ir::Role::Param) return shards.param;
  return role == ir::Role::Grad || role == ir::Role::GradAccumulator ? shards.grad : shards.state;
}

}  // namespace weft
