#include "executor/backends/cuda/library_workspace.h"

#include <algorithm>

#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::StatusOr<LibraryWorkspace::Block> LibraryWorkspace::Allocate(int64_t bytes) {
  Block block;
  WEFT_ASSIGN_OR_RETURN(block.data, device_->Allocate(DEVICE, bytes));
  block.bytes = bytes;
  allocated_ += bytes;
  return block;
}

absl::StatusOr<void*> LibraryWorkspace::Settle() {
  if (spare_.bytes < reserved_) {
    WEFT_ASSIGN_OR_RETURN(spare_, Allocate(reserved_));
  }
  return spare_.data;
}

absl::StatusOr<void*> LibraryWorkspace::Get(int stream, int64_t bytes) {
  Block& block = blocks_[stream];
  if (block.data == nullptr) std::swap(block, spare_);
  if (block.data == nullptr || block.bytes < bytes) {
    WEFT_ASSIGN_OR_RETURN(block, Allocate(std::max({bytes, reserved_, int64_t{256}})));
  }
  return block.data;
}

}  // namespace weft::exec::cuda
