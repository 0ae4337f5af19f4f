#include "executor/backends/cuda/cuda_resources.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/status.h"

namespace weft::cuda {
namespace {

// Of a table that no stream has; -1 is what a device without streams calls its one.
constexpr int kNoStream = -2;

int64_t RoundUp(int64_t bytes, int64_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

absl::StatusOr<void*> ScratchMemory::Get(int stream, int64_t bytes) {
  Block& block = blocks_[stream];
  if (block.data == nullptr && spare_.bytes >= bytes) std::swap(block, spare_);
  if (bytes > block.bytes || block.data == nullptr) {
    // Twice as much as before at least: what is left behind adds up to no more than what is used.
    const int64_t wanted = RoundUp(std::max({bytes, 2 * block.bytes, least_, int64_t{1} << 16}), 256);
    WEFT_ASSIGN_OR_RETURN(block.data, device_->Allocate(DEVICE, wanted));
    block.bytes = wanted;
  }
  return block.data;
}

absl::Status ScratchMemory::Settle() {
  if (least_ == 0 || spare_.data != nullptr) return absl::OkStatus();
  const int64_t wanted = RoundUp(least_, 256);
  WEFT_ASSIGN_OR_RETURN(spare_.data, device_->Allocate(DEVICE, wanted));
  spare_.bytes = wanted;
  return absl::OkStatus();
}

absl::StatusOr<KeptTables::Entry*> KeptTables::NewEntry(int64_t bytes) {
  WEFT_ASSIGN_OR_RETURN(void* data, device_->Allocate(DEVICE, RoundUp(std::max<int64_t>(bytes, 1), 256)));
  entries_.push_back({kNoStream, {}, data, bytes});
  return &entries_.back();
}

absl::StatusOr<KeptTables::Table> KeptTables::Get(int stream, const std::vector<double>& key, int64_t bytes) {
  Entry* spare = nullptr;
  auto oldest = entries_.end();
  int of_stream = 0;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->stream == stream && entry->key == key) return Table{entry->data, true};
    if (entry->stream == kNoStream && entry->bytes >= bytes && spare == nullptr) spare = &*entry;
    if (entry->stream != stream) continue;
    ++of_stream;
    if (oldest == entries_.end() && entry->bytes >= bytes) oldest = entry;
  }
  if (of_stream >= kMost && oldest != entries_.end()) {
    // To the end of the row: it is the newest now.
    std::rotate(oldest, oldest + 1, entries_.end());
    spare = &entries_.back();
  }
  if (spare == nullptr) {
    WEFT_ASSIGN_OR_RETURN(spare, NewEntry(bytes));
  }
  spare->stream = stream;
  spare->key = key;
  return Table{spare->data, false};
}

absl::Status KeptTables::Prepare(const std::vector<double>& key, int64_t bytes) {
  for (const Entry& entry : entries_) {
    if (entry.key == key) return absl::OkStatus();
  }
  if (entries_.size() >= kMost) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(Entry * entry, NewEntry(bytes));
  // Known by its key until a stream takes it.
  entry->key = key;
  return absl::OkStatus();
}

absl::Status Staging::Fit(Slot& slot, int64_t bytes) {
  if (slot.event < 0) {
    WEFT_ASSIGN_OR_RETURN(slot.event, device_->NewEvent(false));
  }
  if (slot.bytes >= bytes) return absl::OkStatus();
  const int64_t wanted = RoundUp(std::max(bytes, least_), 256);
  WEFT_ASSIGN_OR_RETURN(slot.data, device_->Allocate(HOST, wanted));
  slot.bytes = wanted;
  return absl::OkStatus();
}

absl::Status Staging::Settle() {
  if (least_ == 0) return absl::OkStatus();
  for (Slot& slot : slots_) WEFT_RETURN_IF_ERROR(Fit(slot, least_));
  return absl::OkStatus();
}

absl::Status Staging::Upload(int stream, void* to, int64_t bytes, absl::FunctionRef<absl::Status(void*)> fill) {
  if (bytes == 0) return absl::OkStatus();
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  WEFT_RETURN_IF_ERROR(Fit(slot, 0));
  // A device whose work waits for a rank that is gone never gets there.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (true) {
    WEFT_ASSIGN_OR_RETURN(const bool over, device_->Finished(slot.event));
    if (over) break;
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the device has not taken the bytes of the ", kSlots, " uploads before within 10 minutes"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  WEFT_RETURN_IF_ERROR(Fit(slot, bytes));
  WEFT_RETURN_IF_ERROR(fill(slot.data));
  WEFT_RETURN_IF_ERROR(device_->Copy(stream, to, slot.data, bytes));
  return device_->Record(slot.event, stream);
}

}  // namespace weft::cuda
