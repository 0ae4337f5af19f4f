// Tests places of convolutions, and tiles beyond 32 bits. conformance/conv_cases.cc tests values.
#include "executor/backends/cuda/kernels/conv.cu"

#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"

namespace weft::exec::cuda {
namespace {

// InputRow and OutputRow are inverse to each other.
TEST(ConvPlacesTest, RowsMeetBothWays) {
  for (const int64_t height : {1, 2, 5}) {
    for (const int64_t width : {1, 4, 7}) {
      for (const int64_t side : {1, 3, 5}) {
        for (const int64_t stride : {1, 2, 3}) {
          const ConvPlaces c = {height, width, side, stride};
          const int64_t rows = 2 * height * width, out_rows = 2 * c.out_height() * c.out_width();
          int64_t met = 0, met_back = 0;
          for (int64_t place = 0; place < c.places(); ++place) {
            for (int64_t row = 0; row < out_rows; ++row) {
              const int64_t in = c.InputRow(row, place);
              if (in < 0) continue;
              ++met;
              ASSERT_LT(in, rows);
              ASSERT_EQ(c.OutputRow(in, place), row);
            }
            for (int64_t row = 0; row < rows; ++row) met_back += c.OutputRow(row, place) >= 0 ? 1 : 0;
          }
          EXPECT_EQ(met, met_back);
        }
      }
    }
  }
}

TEST(ConvPlacesTest, MoreRowsThan32BitsCount) {
  const ConvPlaces c = {64, 64, 3, 1};
  const int64_t row = (int64_t{1} << 40) + 64 * 5 + 9;
  EXPECT_EQ(c.InputRow(row, 0), row - 65);
  EXPECT_EQ(c.OutputRow(row, 8), row - 65);
}

TEST(TilePlaceTest, EveryTileOnce) {
  const ProductShape shape = {3, 130, 65, 9};
  std::vector<int> seen(3 * 3 * 2);
  for (int64_t block = 0; block < 18; ++block) {
    const TilePlace place = TilePlace::Of(shape, block);
    ++seen[(place.product * 3 + place.row / kTile) * 2 + place.column / kTile];
  }
  EXPECT_EQ(seen, std::vector<int>(18, 1));
}

// 2^19 images of 64 x 64 positions with 3 channels: 6.4 * 10^9 elements.
TEST(ConvTest, MoreElementsThan32BitsCount) {
  constexpr int64_t kImages = int64_t{1} << 19, kRows = kImages * 64 * 64;
  const SparseMemory x(kRows * 3 * 2), y(kRows * 2);
  ASSERT_TRUE(x.good() && y.good());
  ConvShape shape;
  shape.places = {64, 64, 3, 1};
  shape.inputs = 3;
  shape.outputs = 1;
  shape.out_rows = kRows;
  std::vector<float> weight(27, 1);
  const int64_t row = kRows - 64 * 32 - 32;
  x.data<uint16_t>()[row * 3 + 1] = ToBf16(2.0f).bits;
  const ProductShape product = {1, kRows, 1, 27};
  const ConvForward args = {
      shape, {x.data<void>(), Type::kBf16}, {weight.data(), Type::kFp32}, {}, {y.data<void>(), Type::kBf16}};
  using Kernel = TileProduct<Forward<float>>;
  RunBlock(Kernel{{product, args}}, row / kTile, kRows / kTile, kTileThreads, Kernel::kSharedBytes);
  for (int64_t i = row - 2; i <= row + 2; ++i) {
    EXPECT_EQ(ToFloat(Bf16{y.data<uint16_t>()[i]}), i >= row - 1 && i <= row + 1 ? 2 : 0) << i - row;
  }
}

}  // namespace
}  // namespace weft::exec::cuda
