// Tests placed tensors on a device with its own memory, such as a GPU.
#include "executor/backends/cuda/conformance/placed_tensors.h"

#include <cstring>

#include "executor/backends/cuda/conformance/machine.h"
#include "executor/testing/clocked_device.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {

absl::StatusOr<Machine> OpenMachine() {
  Machine machine;
  machine.device = std::make_unique<ClockedDevice>(CopySpeed(), CopySpeed());
  return machine;
}

namespace {

using cpu::Tensor;

TEST(PlacedTensors, CopiesBackResultsAndGuardBytes) {
  Tensor small(FP32, {3}), large(FP64, {1 << 20});
  for (int i = 0; i < 3; ++i) small.Set(i, i + 1);
  large.Set(7, 5);
  const Tensor before = small;
  PlacedTensors placed;
  const TensorView first = *placed.Place(small), second = *placed.Place(large);
  EXPECT_EQ(first.shape, small.shape());
  EXPECT_EQ(first.dtype, FP32);
  ASSERT_NE(first.data, small.view().data);
  EXPECT_EQ(std::memcmp(first.data, small.bytes().data(), small.bytes().size()), 0);
  EXPECT_EQ(static_cast<double*>(second.data)[7], 5);
  for (const TensorView& view : {first, second}) EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 256, 0u);
  // Elements 1 and 3 are written; 3 lies after the end of the tensor.
  static_cast<float*>(first.data)[1] = 9;
  static_cast<float*>(first.data)[3] = 9;
  static_cast<double*>(second.data)[(1 << 20) - 1] = 8;
  EXPECT_EQ(small.bytes(), before.bytes());
  ASSERT_TRUE(placed.Fetch().ok());
  EXPECT_EQ(small.Get(0), 1);
  EXPECT_EQ(small.Get(1), 9);
  EXPECT_FALSE(small.GuardIntact());
  EXPECT_TRUE(large.GuardIntact());
  EXPECT_EQ(large.Get((1 << 20) - 1), 8);
}

TEST(PlacedTensors, TheNextOnesTakeTheSameMemory) {
  Tensor tensor(FP32, {100});
  void* first = nullptr;
  for (int i = 0; i < 2; ++i) {
    PlacedTensors placed;
    void* const data = placed.Place(tensor)->data;
    EXPECT_NE(placed.Place(tensor)->data, data);
    if (i == 0) first = data;
    EXPECT_EQ(data, first);
  }
}

// A tensor may be larger than a block of memory.
TEST(PlacedTensors, PlacesTensorsOfAnySize) {
  Tensor tensor(FP64, {(int64_t{300} << 20) / 8});
  tensor.Set(tensor.size() - 1, 4);
  PlacedTensors placed;
  const auto view = placed.Place(tensor);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(static_cast<double*>(view->data)[tensor.size() - 1], 4);
}

}  // namespace
}  // namespace weft::exec::cuda
