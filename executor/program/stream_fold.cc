#include "executor/program/stream_fold.h"

#include <algorithm>

#include "proto/util/status.h"

namespace weft::exec {
namespace {

// kSlots[n - 1] is the slot of each use (StreamUse) with n streams. With two or more streams, compute has one to
// itself. With three or four, copies to the host share a stream with sends, because both move data off the device, and
// copies from the host share one with receives, because both move data onto it.
constexpr std::array<int, kStreamUses> kSlots[kStreamUses] = {
    {0, 0, 0, 0, 0, 0}, {0, 1, 1, 1, 1, 1}, {0, 1, 2, 2, 2, 1},
    {0, 1, 2, 3, 2, 1}, {0, 1, 2, 3, 4, 4}, {0, 1, 2, 3, 4, 5},
};

}  // namespace

StreamFold::StreamFold(ComputeDevice* device, int budget)
    : device_(*device),
      budget_(budget),
      own_left_(std::max(0, budget - kStreamUses)),
      slot_(kSlots[std::clamp(budget, 1, kStreamUses) - 1]) {
  shared_.fill(-1);
}

int StreamFold::Budget(const ComputeDevice& device, int ranks, int taken) {
  const int queues = device.hardware_queues();
  if (queues <= 0) return 0;
  // Reserved queues are left out only if a rank has the device to itself: ranks that share a device have few streams.
  return std::max(1, ranks > 1 ? queues / ranks : queues - taken - kReservedQueues);
}

absl::StatusOr<int> StreamFold::New(StreamUse use) {
  // Transfers and collectives have priority, because other ranks wait for them.
  const bool urgent = use == StreamUse::kReceives || use == StreamUse::kSends || use == StreamUse::kCollectives;
  return device_.NewStream(urgent ? ComputeDevice::Priority::kHigh : ComputeDevice::Priority::kNormal);
}

absl::StatusOr<StreamFold::Stream> StreamFold::Take(StreamUse use) {
  if (budget_ == 0 || own_left_ > 0) {
    if (budget_ > 0) --own_left_;
    WEFT_ASSIGN_OR_RETURN(const int number, New(use));
    return Stream{number, false};
  }
  int& number = shared_[slot_[static_cast<int>(use)]];
  if (number < 0) {
    WEFT_ASSIGN_OR_RETURN(number, New(use));
  }
  return Stream{number, true};
}

}  // namespace weft::exec
