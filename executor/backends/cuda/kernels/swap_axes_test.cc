#include "executor/backends/cuda/kernels/swap_axes.cu"

#include <array>
#include <cmath>
#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"

namespace weft::exec::cuda {
namespace {

TEST(SwapAxesTest, ThereAndBackAgain) {
  for (const auto& [outer, rows, columns] : std::vector<std::array<int64_t, 3>>{{5, 3, 9}, {1, 1, 1}, {40, 64, 25}}) {
    const int64_t elements = outer * rows * columns;
    std::vector<float> x(elements), y(elements, NAN), back(elements, NAN);
    for (int64_t i = 0; i < elements; ++i) x[i] = static_cast<float>(i);
    const Array of_x = {x.data(), Type::kFp32}, of_y = {y.data(), Type::kFp32}, of_back = {back.data(), Type::kFp32};
    ASSERT_EQ(Launch(SwapAxes{of_x, of_y, outer, rows, columns}, nullptr), nullptr);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          ASSERT_EQ(y[(o * columns + j) * rows + i], x[(o * rows + i) * columns + j]);
        }
      }
    }
    ASSERT_EQ(Launch(SwapAxes{of_y, of_back, outer, columns, rows}, nullptr), nullptr);
    EXPECT_EQ(back, x);
  }
}

TEST(SwapAxesTest, KeepsTheBitsOfHalves) {
  std::vector<uint16_t> x = {0x3f80, 0x4000, 0xff7f, 0x0001, 0x8000, 0x7f80}, y(6);
  ASSERT_EQ(Launch(SwapAxes{{x.data(), Type::kBf16}, {y.data(), Type::kBf16}, 1, 2, 3}, nullptr), nullptr);
  EXPECT_EQ(y, (std::vector<uint16_t>{0x3f80, 0x0001, 0x4000, 0x8000, 0xff7f, 0x7f80}));
}

}  // namespace
}  // namespace weft::exec::cuda
