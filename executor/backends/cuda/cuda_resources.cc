#include "executor/backends/cuda/cuda_resources.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/status.h"

namespace weft::cuda {
namespace {

int64_t RoundUp(int64_t bytes, int64_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

absl::StatusOr<void*> ScratchMemory::Get(int stream, int64_t bytes) {
  Block& block = blocks_[stream];
  if (bytes > block.bytes || block.data == nullptr) {
    // Twice as much as before at least: what is left behind adds up to no more than what is used.
    const int64_t wanted = RoundUp(std::max({bytes, 2 * block.bytes, least_, int64_t{1} << 16}), 256);
    WEFT_ASSIGN_OR_RETURN(block.data, device_->Allocate(DEVICE, wanted));
    block.bytes = wanted;
  }
  return block.data;
}

void ScratchMemory::Reserve(int64_t bytes) { least_ = std::max(least_, bytes); }

absl::Status Staging::Reserve(int64_t bytes) {
  least_ = std::max(least_, bytes);
  return absl::OkStatus();
}

absl::Status Staging::Upload(int stream, void* to, int64_t bytes, absl::FunctionRef<absl::Status(void*)> fill) {
  if (bytes == 0) return absl::OkStatus();
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  if (slot.event < 0) {
    WEFT_ASSIGN_OR_RETURN(slot.event, device_->NewEvent(false));
  } else {
    // A device whose work waits for a rank that is gone never gets there.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool over, device_->Finished(slot.event));
      if (over) break;
      if (std::chrono::steady_clock::now() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("the device has not taken ", kSlots, " uploads ago's bytes within 10 minutes"));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  if (slot.bytes < bytes) {
    const int64_t wanted = RoundUp(std::max(bytes, least_), 256);
    WEFT_ASSIGN_OR_RETURN(slot.data, device_->Allocate(HOST, wanted));
    slot.bytes = wanted;
  }
  WEFT_RETURN_IF_ERROR(fill(slot.data));
  WEFT_RETURN_IF_ERROR(device_->Copy(stream, to, slot.data, bytes));
  return device_->Record(slot.event, stream);
}

}  // namespace weft::cuda
