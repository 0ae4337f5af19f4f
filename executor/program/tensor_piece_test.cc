#include "executor/program/tensor_piece.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

Program OneTensor(std::vector<int64_t> shape, int64_t padded_rows, std::vector<std::pair<std::string, int64_t>> axes) {
  Program program;
  for (const auto& [name, size] : axes) {
    MeshAxis* axis = program.mutable_mesh()->add_axes();
    axis->set_name(name);
    axis->set_size(size);
  }
  LogicalTensor& tensor = *program.add_tensors();
  tensor.set_name("w");
  for (const int64_t extent : shape) tensor.add_shape(extent);
  for (const int64_t extent : shape) tensor.add_padded_shape(extent);
  if (!shape.empty()) tensor.set_padded_shape(0, padded_rows);
  return program;
}

void Cut(Buffer& buffer, int dimension, const std::string& axis, int64_t runs = 0) {
  DimensionCut* cut = buffer.mutable_shard()->add_dimensions();
  cut->set_dimension(dimension);
  cut->set_axis(axis);
  cut->set_runs(runs);
}

void Range(Buffer& buffer, const std::string& axis, int64_t block = 0) {
  RangeCut* cut = buffer.mutable_shard()->add_ranges();
  cut->set_axis(axis);
  cut->set_block(block);
}

// Checks the runs of a piece and returns its logical elements in order of position.
std::vector<int64_t> ElementsOf(const TensorPiece& piece, const std::vector<int64_t>& shape) {
  EXPECT_TRUE(CheckPiece(piece, shape).ok()) << CheckPiece(piece, shape);
  std::vector<int64_t> elements;
  for (const TensorRun& run : RunsOf(piece, shape)) {
    EXPECT_EQ(run.position, elements.size());
    EXPECT_GT(run.count, 0);
    for (int64_t i = 0; i < run.count; ++i) elements.push_back(run.logical + i);
  }
  EXPECT_EQ(elements.size(), piece.count);
  return elements;
}

TEST(TensorPieceTest, ThirdsOfColumns) {
  // q, k and v are side by side, four columns each. Over x = 2, rank 1 has the last two columns of each.
  const Program program = OneTensor({2, 12}, 2, {{"x", 2}});
  Buffer buffer;
  Cut(buffer, 1, "x", 3);
  buffer.add_shape(2);
  buffer.add_shape(6);
  EXPECT_EQ(ElementsOf(*PieceOfBuffer(program, 1, buffer), {2, 12}),
            (std::vector<int64_t>{2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23}));
}

// Elements are counted part after part, and the dimension cuts make the parts. The place of the rank's range within its
// part is added.
TEST(TensorPieceTest, NumberOfTheFirstElement) {
  const Program program = OneTensor({6, 8}, 8, {{"x", 2}, {"y", 2}, {"data", 4}});
  const auto first = [&](int64_t x, int64_t y, int64_t data, std::vector<std::pair<std::string, int64_t>> ranges) {
    Buffer buffer;
    Cut(buffer, 0, "y");
    Cut(buffer, 1, "x", 2);
    int64_t elements = 16;
    for (const auto& [axis, block] : ranges) {
      Range(buffer, axis, block);
      elements /= block > 0 ? block : 4;
    }
    buffer.add_shape(elements);
    return FirstElementOf(program, x + 2 * y + 4 * data, buffer);
  };
  EXPECT_EQ(first(0, 0, 3, {}), 0);
  EXPECT_EQ(first(1, 0, 3, {}), 16);
  EXPECT_EQ(first(0, 1, 0, {}), 32);
  EXPECT_EQ(first(1, 1, 0, {}), 48);
  EXPECT_EQ(first(1, 1, 3, {{"data", 0}}), 48 + 12);
  EXPECT_EQ(first(1, 1, 3, {{"data", 2}}), 48 + 8);
  EXPECT_EQ(first(1, 0, 2, {{"data", 2}}), 16);
}

TEST(TensorPieceTest, RangesOfABlockWithPadding) {
  // Columns over y = 2, then the 3 x 2 block in 4 ranges of 2 over z. The last range is padding.
  const Program program = OneTensor({3, 4}, 3, {{"y", 2}, {"z", 4}});
  Buffer buffer;
  Cut(buffer, 1, "y");
  Range(buffer, "z");
  buffer.add_shape(2);
  EXPECT_EQ(ElementsOf(*PieceOfBuffer(program, 0, buffer), {3, 4}), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(ElementsOf(*PieceOfBuffer(program, 3, buffer), {3, 4}), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(ElementsOf(*PieceOfBuffer(program, 7, buffer), {3, 4}), (std::vector<int64_t>{}));
}

TEST(TensorPieceTest, PaddedRows) {
  // 5 rows padded to 8, over x = 2: the second half has one row.
  const Program program = OneTensor({5, 3}, 8, {{"x", 2}});
  Buffer buffer;
  Cut(buffer, 0, "x");
  buffer.add_shape(4);
  buffer.add_shape(3);
  EXPECT_EQ(ElementsOf(*PieceOfBuffer(program, 1, buffer), {5, 3}), (std::vector<int64_t>{12, 13, 14}));
  EXPECT_EQ(PieceOfBuffer(program, 0, buffer)->count, 12);
}

// Every element has one owner in each shard group, and the pieces have the places that FirstElementOf returns. This
// holds for any number of ranks: also if it does not divide the elements or exceeds them, if the ranks form groups, and
// after a cut over z that does not divide the elements either.
TEST(TensorPieceTest, RangesThatAreRoundedUpAreTheTensor) {
  for (const int64_t parts : {2, 3, 5, 6, 7, 12}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 1}, {3, 5}, {4, 4}, {1, 11}, {7, 13}}) {
      for (const int64_t z : {1, 2, 3}) {
        for (const int64_t groups : {1, 2}) {
          SCOPED_TRACE(testing::Message() << parts << " parts of " << shape[0] << " x " << shape[1] << ", z " << z);
          const int64_t ranks = parts * groups, elements = shape[0] * shape[1];
          const Program program = OneTensor(shape, shape[0], {{"z", z}, {"data", ranks}});
          Buffer buffer;
          Range(buffer, "z");
          Range(buffer, "data", groups > 1 ? parts : 0);
          const int64_t range = (elements + z - 1) / z;
          buffer.add_shape((range + parts - 1) / parts);
          std::multiset<int64_t> seen;
          for (int64_t rank = 0; rank < z * ranks; ++rank) {
            const auto piece = PieceOfBuffer(program, rank, buffer);
            ASSERT_TRUE(piece.ok()) << piece.status();
            const std::vector<int64_t> own = ElementsOf(*piece, shape);
            seen.insert(own.begin(), own.end());
            if (own.empty()) continue;
            EXPECT_EQ(own[0], FirstElementOf(program, rank, buffer));
            EXPECT_EQ(own[0] / range, rank % z);
            EXPECT_EQ(own[0] % range / buffer.shape(0), rank / z % parts);
          }
          EXPECT_EQ(seen.size(), groups * elements);
          for (int64_t element = 0; element < elements; ++element) EXPECT_EQ(seen.count(element), groups);
        }
      }
    }
  }
}

// For random shards of random meshes, the pieces of all coordinates make up the tensor, each element once.
TEST(TensorPieceTest, PiecesOfRandomShardsAreTheTensor) {
  std::mt19937 random(4);
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int64_t x = 1 + random() % 3, y = 1 + random() % 3, data = 1 + random() % 4;
    const int64_t runs = 1 + random() % 3;
    const int64_t rows = x * (1 + random() % 4), columns = y * runs * (1 + random() % 3), depth = 1 + random() % 3;
    const int64_t unpadded = rows - random() % rows;
    const std::vector<int64_t> shape = {unpadded, columns, depth};
    const Program program = OneTensor(shape, rows, {{"data", data}, {"x", x}, {"y", y}});
    Buffer buffer;
    const bool cut_rows = random() % 2, cut_columns = random() % 2, range = random() % 2;
    if (cut_rows) Cut(buffer, 0, "x");
    if (cut_columns) Cut(buffer, 1, "y", runs);
    const int64_t block = (rows / (cut_rows ? x : 1)) * (columns / (cut_columns ? y : 1)) * depth;
    if (range) {
      Range(buffer, "data");
      buffer.add_shape((block + data - 1) / data);
    } else {
      for (const int64_t extent : {rows / (cut_rows ? x : 1), columns / (cut_columns ? y : 1), depth}) {
        buffer.add_shape(extent);
      }
    }
    std::multiset<int64_t> seen;
    for (int64_t rank = 0; rank < data * x * y; ++rank) {
      // Skips all but one of the ranks that hold the same piece.
      if ((!cut_rows && AxisCoordinate(program.mesh(), rank, "x") > 0) ||
          (!cut_columns && AxisCoordinate(program.mesh(), rank, "y") > 0) ||
          (!range && AxisCoordinate(program.mesh(), rank, "data") > 0)) {
        continue;
      }
      const auto piece = PieceOfBuffer(program, rank, buffer);
      ASSERT_TRUE(piece.ok()) << piece.status();
      for (const int64_t element : ElementsOf(*piece, shape)) seen.insert(element);
    }
    ASSERT_EQ(seen.size(), unpadded * columns * depth);
    int64_t next = 0;
    for (const int64_t element : seen) ASSERT_EQ(element, next++);
  }
}

TEST(TensorPieceTest, RangesInBlocksOfAnAxis) {
  // Shard groups of 2 in a data axis of 4: coordinates 1 and 3 hold the same.
  const Program program = OneTensor({6}, 6, {{"data", 4}});
  Buffer buffer;
  Range(buffer, "data", 2);
  buffer.add_shape(3);
  EXPECT_EQ(ElementsOf(*PieceOfBuffer(program, 3, buffer), {6}), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(*PieceOfBuffer(program, 3, buffer), *PieceOfBuffer(program, 1, buffer));
}

TEST(TensorPieceTest, ScalarsAndWholes) {
  const Program program = OneTensor({}, 0, {{"data", 2}});
  EXPECT_EQ(ElementsOf(*PieceOfBuffer(program, 1, Buffer()), {}), (std::vector<int64_t>{0}));
  EXPECT_EQ(ElementsOf(WholePiece({2, 2}), {2, 2}), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(TensorPieceTest, RefusesWhatDoesNotDivide) {
  const Program program = OneTensor({4, 6}, 4, {{"x", 4}});
  Buffer buffer;
  buffer.set_name("b");
  Cut(buffer, 1, "x");
  EXPECT_THAT(std::string(PieceOfBuffer(program, 0, buffer).status().message()),
              HasSubstr("buffer 'b' of tensor 'w': axis x of 4 does not divide dimension 1"));
  buffer.mutable_shard()->mutable_dimensions(0)->set_dimension(2);
  EXPECT_FALSE(PieceOfBuffer(program, 0, buffer).ok());
  buffer.clear_shard();
  Range(buffer, "x");
  buffer.add_shape(5);
  EXPECT_THAT(std::string(PieceOfBuffer(program, 0, buffer).status().message()),
              HasSubstr("it has 5 elements; the rank's part of a block of 24 has 6"));
}

TEST(TensorPieceTest, HostilePieces) {
  const std::vector<int64_t> shape = {4, 6};
  EXPECT_FALSE(CheckPiece({{{{0, 4}}}, 0, 1}, shape).ok());
  EXPECT_FALSE(CheckPiece({{{{0, 5}}, {{0, 6}}}, 0, 1}, shape).ok());
  EXPECT_FALSE(CheckPiece({{{{2, 4}, {0, 1}}, {{0, 6}}}, 0, 1}, shape).ok());
  EXPECT_FALSE(CheckPiece({{{{-1, 4}}, {{0, 6}}}, 0, 1}, shape).ok());
  EXPECT_FALSE(CheckPiece({{{{0, 4}}, {{0, 6}}}, 20, 5}, shape).ok());
  EXPECT_FALSE(CheckPiece({{{{0, 4}}, {{0, 6}}}, INT64_MAX, INT64_MAX}, shape).ok());
  EXPECT_TRUE(CheckPiece({{{{0, 4}}, {{0, 6}}}, 20, 4}, shape).ok());
}

}  // namespace
}  // namespace weft::exec
