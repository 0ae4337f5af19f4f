#include "executor/backends/cuda/conformance/placed_tensors.h"

#include <algorithm>
#include <cstdint>

#include "executor/backends/cuda/conformance/machine.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// A block of device memory. It is never freed: each PlacedTensors object reuses the blocks of the previous one.
struct Block {
  char* data = nullptr;
  int64_t bytes = 0;
  int64_t used = 0;
};

std::vector<Block>& Blocks() {
  static auto* blocks = new std::vector<Block>;
  return *blocks;
}

absl::StatusOr<char*> TakeFromBlock(int64_t bytes) {
  constexpr int64_t kAlignment = 256, kMin = int64_t{256} << 20;
  const int64_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  for (Block& block : Blocks()) {
    if (block.bytes - block.used < taken) continue;
    block.used += taken;
    return block.data + block.used - taken;
  }
  const int64_t size = std::max(taken, kMin);
  WEFT_ASSIGN_OR_RETURN(void* const data, TheMachine().device->Allocate(DEVICE, size));
  Blocks().push_back({static_cast<char*>(data), size, taken});
  return Blocks().back().data;
}

}  // namespace

PlacedTensors::PlacedTensors() {
  for (Block& block : Blocks()) block.used = 0;
}

absl::StatusOr<TensorView> PlacedTensors::Place(cpu::Tensor& tensor) {
  TensorView view = tensor.view();
  ComputeDevice& device = *TheMachine().device;
  if (!device.asynchronous()) return view;
  const auto bytes = static_cast<int64_t>(tensor.bytes().size());
  WEFT_ASSIGN_OR_RETURN(view.data, TakeFromBlock(bytes));
  WEFT_RETURN_IF_ERROR(device.CopyNow(view.data, tensor.bytes().data(), bytes));
  copies_.emplace_back(&tensor, view.data);
  return view;
}

absl::Status PlacedTensors::Fetch() {
  for (const auto& [tensor, place] : copies_) {
    WEFT_RETURN_IF_ERROR(
        TheMachine().device->CopyNow(tensor->data<char>(), place, static_cast<int64_t>(tensor->bytes().size())));
  }
  return absl::OkStatus();
}

}  // namespace weft::exec::cuda
