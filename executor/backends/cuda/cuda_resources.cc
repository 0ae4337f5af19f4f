#include "executor/backends/cuda/cuda_resources.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Marks a table that no stream uses. It cannot be -1: a device without streams calls its only stream -1.
constexpr int kNoStream = -2;

// Alignment of tables and of pieces of the upload ring, and the least size of the ring.
constexpr int64_t kAlignment = 256;
constexpr int64_t kMinRing = 1 << 16;

int64_t RoundUp(int64_t bytes, int64_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

absl::StatusOr<void*> ScratchMemory::Get(int stream, int64_t bytes) {
  Block& block = blocks_[stream];
  if (block.data == nullptr && spare_.bytes >= bytes) std::swap(block, spare_);
  if (bytes > block.bytes || block.data == nullptr) {
    // At least double the block. The abandoned blocks together are then no larger than the block in use.
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

absl::StatusOr<void*> FixedTables::Get(absl::string_view bytes) {
  const auto [found, is_new] = tables_.try_emplace(std::string(bytes), nullptr);
  if (!is_new) return found->second;
  // Remove the entry if its table cannot be made.
  const auto fail = [&, at = found](absl::Status status) {
    tables_.erase(at);
    return status;
  };
  const auto size = static_cast<int64_t>(bytes.size()), wanted = RoundUp(std::max<int64_t>(size, 1), kAlignment);
  if (wanted > free_bytes_) {
    const int64_t block = std::max(wanted, kBlock);
    const absl::StatusOr<void*> memory = device_->Allocate(DEVICE, block);
    if (!memory.ok()) return fail(memory.status());
    free_ = static_cast<char*>(*memory);
    free_bytes_ = block;
  }
  if (const absl::Status copied = device_->CopyNow(free_, bytes.data(), size); !copied.ok()) return fail(copied);
  found->second = free_;
  free_ += wanted;
  free_bytes_ -= wanted;
  return found->second;
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
  if (of_stream >= kMax && oldest != entries_.end()) {
    // Reuse the oldest table that is large enough. Move its entry to the end, because it is the newest now.
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
  if (entries_.size() >= kMax) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(Entry * entry, NewEntry(bytes));
  // The entry has a key but no stream. The key shows that this table is prepared, until a stream takes its memory.
  entry->key = key;
  return absl::OkStatus();
}

void Staging::Reserve(int64_t bytes) {
  const int64_t taken = RoundUp(bytes, kAlignment);
  largest_ = std::max(largest_, taken);
  total_ += taken;
  ++uploads_;
}

absl::Status Staging::Settle() {
  if (largest_ == 0) return absl::OkStatus();
  const int64_t usual = kMax * RoundUp(total_ / uploads_, kAlignment);
  WEFT_RETURN_IF_ERROR(Grow(std::max(2 * largest_, std::min(usual, kRoomy))));
  while (events_.size() + pieces_.size() < kMax) {
    WEFT_ASSIGN_OR_RETURN(events_.emplace_back(), device_->NewEvent(false));
  }
  return absl::OkStatus();
}

absl::Status Staging::Grow(int64_t least) {
  if (capacity_ >= least) return absl::OkStatus();
  // Wait for uploads from the old ring: they must not count as pieces of the new ring. The old ring stays allocated.
  while (!pieces_.empty()) WEFT_RETURN_IF_ERROR(Retire());
  WEFT_ASSIGN_OR_RETURN(void* const ring, device_->Allocate(HOST, least));
  ring_ = static_cast<char*>(ring);
  capacity_ = least;
  next_ = 0;
  return absl::OkStatus();
}

absl::Status Staging::Retire() {
  // If the device's work waits for a rank that is gone, the upload never finishes. The deadline ends the wait then.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (true) {
    WEFT_ASSIGN_OR_RETURN(const bool over, device_->Finished(pieces_.front().event));
    if (over) break;
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("the device has not taken the oldest of ", pieces_.size(),
                                                      " uploads in flight within 10 minutes"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  events_.push_back(pieces_.front().event);
  pieces_.pop_front();
  return absl::OkStatus();
}

absl::StatusOr<int> Staging::NewPieceEvent() {
  if (events_.empty()) return device_->NewEvent(false);
  const int event = events_.back();
  events_.pop_back();
  return event;
}

absl::Status Staging::Upload(int stream, void* to, int64_t bytes, absl::FunctionRef<absl::Status(void*)> fill) {
  if (bytes == 0) return absl::OkStatus();
  const int64_t taken = RoundUp(bytes, kAlignment);
  // The ring is too small only for uploads that were not reserved. It at least doubles, so this is rare.
  if (taken > capacity_) WEFT_RETURN_IF_ERROR(Grow(std::max({2 * taken, 2 * capacity_, kMinRing})));
  // Start at the beginning if the rest of the ring is too short.
  const int64_t begin = next_ + taken <= capacity_ ? next_ : 0, end = begin + taken;
  const auto in_the_way = [&](const Piece& piece) { return piece.begin < end && begin < piece.end; };
  while (static_cast<int>(pieces_.size()) >= kMax || std::any_of(pieces_.begin(), pieces_.end(), in_the_way)) {
    WEFT_RETURN_IF_ERROR(Retire());
  }
  WEFT_RETURN_IF_ERROR(fill(ring_ + begin));
  WEFT_ASSIGN_OR_RETURN(const int event, NewPieceEvent());
  // From here on the piece is in use, even if the calls below fail.
  pieces_.push_back({begin, end, event});
  next_ = end;
  WEFT_RETURN_IF_ERROR(device_->Copy(stream, to, ring_ + begin, bytes));
  return device_->Record(event, stream);
}

}  // namespace weft::exec::cuda
