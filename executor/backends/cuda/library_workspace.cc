#include "executor/backends/cuda/library_workspace.h"

#include <algorithm>

#include "proto/status.h"

namespace weft::cuda {

absl::StatusOr<LibraryWorkspace::Block> LibraryWorkspace::Allocate(int64_t bytes) {
  Block block;
  WEFT_ASSIGN_OR_RETURN(block.data, device_->Allocate(DEVICE, bytes));
  block.bytes = bytes;
  allocated_ += bytes;
  return block;
}

absl::Status LibraryWorkspace::Reserve(int64_t bytes) {
  if (bytes <= reserved_) return absl::OkStatus();
  // Twice what small ones were, so that many growing sizes leave little behind.
  constexpr int64_t kSmall = int64_t{64} << 20;
  reserved_ = std::max(bytes, std::min(2 * reserved_, kSmall));
  // Streams that have run have theirs; they get larger ones when they ask.
  if (!blocks_.empty()) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(spare_, Allocate(reserved_));
  return absl::OkStatus();
}

absl::StatusOr<void*> LibraryWorkspace::Get(int stream, int64_t bytes) {
  Block& block = blocks_[stream];
  if (block.data == nullptr) std::swap(block, spare_);
  if (block.data == nullptr || block.bytes < bytes) {
    WEFT_ASSIGN_OR_RETURN(block, Allocate(std::max({bytes, reserved_, int64_t{256}})));
  }
  return block.data;
}

}  // namespace weft::cuda
