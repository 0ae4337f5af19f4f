// Tests norms of zero, of infinities, and of many pieces. conformance/gradient_norm_cases.cc tests all other values.
#include "executor/backends/cuda/kernels/gradient_norm.cu"

#include <utility>
#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"

namespace weft::exec::cuda {
namespace {

std::vector<double> Scratch() { return std::vector<double>(kNormScratchBytes / 8, NAN); }

double NormOf(std::vector<float> x) {
  std::vector<double> scratch = Scratch();
  double norm = -1;
  const SumOfSquares args = {{x.data(), Type::kFp32}, static_cast<int64_t>(x.size()), scratch.data(), &norm, nullptr};
  EXPECT_EQ(Launch(args, nullptr), nullptr);
  return norm;
}

// Returns norm[0] and norm[1] for a sum of squares.
std::vector<double> Total(double sum, double clip, const double* scale) {
  std::vector<double> norm(2, -1);
  NormOfAll args;
  args.norms = &sum;
  args.count = 1;
  args.clip_norm = clip;
  args.scale = scale;
  args.norm = norm.data();
  EXPECT_EQ(Launch(args, nullptr), nullptr);
  return norm;
}

TEST(GradientNormTest, ZeroAndNothing) {
  EXPECT_EQ(NormOf({}), 0);
  EXPECT_EQ(NormOf(std::vector<float>(20000, 0)), 0);
  EXPECT_EQ(Total(0, 1, nullptr), (std::vector<double>{0, 1}));
}

// fp32 numbers whose squares are out of the range of fp32.
TEST(GradientNormTest, LargeAndSmallNumbers) {
  EXPECT_EQ(NormOf({0x1p100f, 0x1p100f}), 0x1p201);
  EXPECT_EQ(NormOf({0x1p-140f}), 0x1p-280);
}

TEST(GradientNormTest, AnOverflowIsSeenByTheDynamicScale) {
  const double scale[3] = {1024, 0, 0};
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    EXPECT_EQ(Total(bad, 1, scale)[1], 0);
    EXPECT_EQ(Total(bad, 0, scale)[1], 0);
  }
  EXPECT_EQ(NormOf({1, INFINITY}), INFINITY);
  EXPECT_TRUE(std::isnan(NormOf({1, NAN})));
}

// Tries sizes around the limits of a piece.
TEST(GradientNormTest, EveryElementCountsOnce) {
  for (const int64_t n : {int64_t{1}, kMinNormPiece - 1, kMinNormPiece, kMinNormPiece + 1, 5 * kMinNormPiece + 3}) {
    EXPECT_EQ(NormOf(std::vector<float>(n, 1)), static_cast<double>(n));
  }
}

// Tensors of a table give the same bits as each tensor alone: small tensors, empty tensors, and tensors of several
// pieces.
TEST(GradientNormTest, TensorsOfATableHaveTheirOwnNorms) {
  for (const auto& [exact, type] :
       {std::pair(false, Type::kFp32), std::pair(false, Type::kNone), std::pair(true, Type::kFp32)}) {
    std::vector<std::vector<float>> data;
    for (const int64_t n : {int64_t{5}, int64_t{0}, 3 * kMinNormPiece + 1, int64_t{1}, kMinNormPiece, int64_t{77}}) {
      data.emplace_back(n);
      for (int64_t i = 0; i < n; ++i) data.back()[i] = static_cast<float>((i * 37 + n) % 101) / 7 - 6;
    }
    std::vector<double> norms(data.size(), -1);
    std::vector<Exact192> exact_norms(data.size(), Exact192{{1, 2, 3}});
    std::vector<SquaredTensor> tensors;
    std::vector<int64_t> ends;
    int64_t pieces = 0;
    for (size_t i = 0; i < data.size(); ++i) {
      const auto n = static_cast<int64_t>(data[i].size());
      void* norm = exact ? static_cast<void*>(&exact_norms[i]) : &norms[i];
      tensors.push_back({{data[i].data(), Type::kFp32}, n, norm});
      ends.push_back(pieces += NormPiecesOf(n));
    }
    std::vector<Exact192> scratch(pieces);
    const SumsOfSquares args = {
        {tensors.data(), ends.data(), static_cast<int64_t>(ends.size()), pieces}, type, exact, scratch.data()};
    ASSERT_EQ(Launch(args, nullptr), nullptr);
    for (size_t i = 0; i < data.size(); ++i) {
      Exact192 one = {};
      std::vector<double> own = Scratch();
      const SumOfSquares alone = {tensors[i].x, tensors[i].elements, own.data(), nullptr, &one};
      ASSERT_EQ(Launch(alone, nullptr), nullptr);
      if (exact) {
        EXPECT_TRUE(exact_norms[i] == one) << i;
      } else {
        EXPECT_EQ(norms[i], NormOf(data[i])) << i;
      }
    }
  }
}

TEST(GradientNormTest, ExactSumsHaveNoOrder) {
  std::vector<double> scratch = Scratch();
  std::vector<double> x(30001);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(1.0 + static_cast<double>(i % 7) / 3, static_cast<int>(i % 90) - 60);
  Exact192 expected = {};
  for (const double value : x) exact192::AddNumber(expected, value * value);
  Exact192 norm = {{1, 2, 3}};
  SumOfSquares args = {{x.data(), Type::kFp64}, static_cast<int64_t>(x.size()), scratch.data(), nullptr, &norm};
  ASSERT_EQ(Launch(args, nullptr), nullptr);
  EXPECT_TRUE(norm == expected);
}

TEST(GradientNormTest, MoreElementsThan32BitsCount) {
  constexpr int64_t kElements = (int64_t{1} << 32) + 1000;
  const SparseMemory x(kElements * 2);
  ASSERT_TRUE(x.good());
  x.data<uint16_t>()[int64_t{1} << 32] = ToBf16(3.0f).bits;
  std::vector<double> sums(kMaxNormPieces, -1);
  ASSERT_EQ(NormPiecesOf(kElements), kMaxNormPieces);
  RunBlock(Pieces<InDouble, Type::kBf16>{{x.data<void>(), Type::kBf16}, kElements, sums.data()}, 0, kMaxNormPieces,
           kThreads, kThreads * int64_t{sizeof(double)});
  EXPECT_EQ(sums[0], 9);
}

}  // namespace
}  // namespace weft::exec::cuda
