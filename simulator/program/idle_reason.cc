#include "simulator/program/idle_reason.h"

namespace weft::sim {

absl::string_view IdleReasonName(IdleReason reason) {
  switch (reason) {
    case IdleReason::kForwardInput:
      return "waiting for forward input";
    case IdleReason::kGradientInput:
      return "waiting for gradient input";
    case IdleReason::kGradientSync:
      return "waiting for gradient synchronization";
    case IdleReason::kOtherSync:
      return "waiting for norm and loss synchronization";
    case IdleReason::kTensorCollective:
      return "waiting for a tensor collective";
    case IdleReason::kGatheredWeights:
      return "waiting for gathered weights";
    case IdleReason::kScatteredGradients:
      return "waiting for scattered gradients";
    case IdleReason::kBufferReuse:
      return "waiting for a buffer to be free";
    case IdleReason::kHostCopy:
      return "waiting for a copy between host and device";
    case IdleReason::kInFlightLimit:
      return "waiting at the limit of microbatches in flight";
    case IdleReason::kComputeSlot:
      return "waiting for a compute slot";
    case IdleReason::kStepBarrier:
      return "waiting for the other ranks at the step barrier";
    case IdleReason::kEndOfRun:
      return "end of step";
  }
  return "";
}

IdleReason CollectiveReason(Purpose purpose) {
  switch (purpose) {
    case GRADIENT_SYNC:
    case TIED_SYNC:
      return IdleReason::kGradientSync;
    case TENSOR:
      return IdleReason::kTensorCollective;
    case GATHER_WEIGHTS:
      return IdleReason::kGatheredWeights;
    case SCATTER_GRADIENTS:
      return IdleReason::kScatteredGradients;
    default:
      return IdleReason::kOtherSync;
  }
}

}  // namespace weft::sim
