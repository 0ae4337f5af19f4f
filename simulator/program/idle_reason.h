#ifndef WEFT_SIMULATOR_PROGRAM_IDLE_REASON_H_
#define WEFT_SIMULATOR_PROGRAM_IDLE_REASON_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/program.pb.h"

namespace weft::sim {

// The event that the compute stream of a rank waited for while it was idle.
enum class IdleReason : uint8_t {
  kForwardInput,
  kGradientInput,
  kGradientSync,
  kOtherSync,
  kTensorCollective,
  kGatheredWeights,
  kScatteredGradients,
  kBufferReuse,
  kHostCopy,
  kInFlightLimit,
  kComputeSlot,
  kStepBarrier,
  kEndOfRun,
};
inline constexpr int kIdleReasons = 13;

// Returns the name of a reason, e.g. "waiting for forward input".
absl::string_view IdleReasonName(IdleReason reason);

// Returns why a stream that waits for a collective with this purpose is idle.
IdleReason CollectiveReason(Purpose purpose);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_IDLE_REASON_H_
