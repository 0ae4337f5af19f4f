#include "executor/backends/cuda/cublaslt_matmul.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "executor/backends/cuda/counting_device_testing.h"
#include "executor/backends/cuda/cublaslt_product.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "executor/backends/cuda/fake_cublaslt.h"
#include "executor/backends/cuda/library_bytes.h"
#include "executor/platform/shared_library.h"
#include "proto/io/io.h"

namespace weft::exec::cuda {
namespace {

const TuningDevice kDevice = {90, 132, 130100, "NVIDIA H200"};

cudaDataType_t DataType(Type type) {
  return type == Type::kFp64   ? CUDA_R_64F
         : type == Type::kFp32 ? CUDA_R_32F
         : type == Type::kBf16 ? CUDA_R_16BF
                               : CUDA_R_16F;
}

// Aligned memory with random values.
class Values {
 public:
  Values(ComputeDevice* device, Type type, int64_t elements, std::mt19937& random) : type_(type), elements_(elements) {
    data_ = *device->Allocate(DEVICE, (elements + 8) * BytesOf(type));
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int64_t i = 0; i < elements; ++i) fake::Store(data_, DataType(type), i, uniform(random));
  }
  void* data() const { return data_; }
  std::vector<double> Read() const {
    std::vector<double> values;
    for (int64_t i = 0; i < elements_; ++i) values.push_back(fake::Load(data_, DataType(type_), i));
    return values;
  }
  void CopyFrom(const Values& other) { std::memcpy(data_, other.data_, elements_ * BytesOf(type_)); }

 private:
  Type type_;
  int64_t elements_;
  void* data_;
};

class CublasLtMatmulTest : public ::testing::Test {
 protected:
  std::unique_ptr<Matmul> Make(const TuningOptions& options = {}) {
    auto matmul = MakeCublasLtMatmul(&lt_, device_.get(), kDevice, options);
    EXPECT_TRUE(matmul.ok()) << matmul.status();
    return matmul.ok() ? *std::move(matmul) : nullptr;
  }

  const CublasLt lt_ = fake::Table();
  const std::unique_ptr<ComputeDevice> device_ = MakeHostDevice();
};

// Returns the shape of a dense row-major product.
MatmulShape Shape(int64_t m, int64_t n, int64_t k, Type in, Type out) {
  MatmulShape s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.a = {in, k, 0};
  s.b = {in, n, 0};
  s.y = {out, n, 0};
  return s;
}

// The products equal the results of plain loops for every transpose, type, bias, accumulation, stride and batch. So the
// row-major matrices are described correctly to cuBLASLt.
TEST_F(CublasLtMatmulTest, IsTheProductByRows) {
  std::mt19937 random(7);
  const Libraries loops = EmulatedLibraries();
  const auto matmul = Make();
  int tried = 0;
  for (const Type in : {Type::kFp64, Type::kFp32, Type::kBf16, Type::kFp16}) {
    for (const Type out : {Type::kFp64, Type::kFp32, Type::kBf16, Type::kFp16}) {
      for (int bits = 0; bits < 32; ++bits) {
        const bool direct = IsDirectProduct(in, out);
        MatmulShape s = Shape(5, 7, 3, in, out);
        s.transpose_a = bits & 1;
        s.transpose_b = bits & 2;
        s.accumulate = bits & 4;
        const bool strided = bits & 8, batched = bits & 16;
        if (strided && !direct) continue;
        const int64_t more = strided ? 4 : 0;
        s.a.stride = (s.transpose_a ? s.m : s.k) + more;
        s.b.stride = (s.transpose_b ? s.k : s.n) + more;
        s.y.stride = s.n + more;
        if (batched) {
          s.batch = 3;
          s.a.batch_stride = 50;
          s.b.batch_stride = 100;
          s.y.batch_stride = direct ? 80 : s.m * s.n;
        }
        s.scale = bits % 3 == 0 ? 1 : 0.25;
        for (const Type bias : {Type::kNone, out, Type::kFp32}) {
          s.bias = bias;
          Values a(device_.get(), in, 300, random), b(device_.get(), in, 300, random);
          Values y(device_.get(), out, 300, random), expected(device_.get(), out, 300, random);
          Values added(device_.get(), bias == Type::kNone ? Type::kFp32 : bias, 7, random);
          expected.CopyFrom(y);
          const void* bias_data = bias == Type::kNone ? nullptr : added.data();
          ASSERT_TRUE(loops.matmul->Run(s, {a.data(), b.data(), bias_data, expected.data()}, {}).ok());
          ASSERT_TRUE(matmul->Prepare(s).ok());
          const absl::Status run = matmul->Run(s, {a.data(), b.data(), bias_data, y.data()}, {});
          ASSERT_TRUE(run.ok()) << run;
          const std::vector<double> got = y.Read(), want = expected.Read();
          // A result that is converted to type `out` after the product is rounded once more.
          const double tolerance = out == Type::kBf16 ? 2e-2 : out == Type::kFp16 ? 3e-3 : 1e-6;
          for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_NEAR(got[i], want[i], in == Type::kFp64 && out == Type::kFp64 && bias != Type::kFp32 ? 0 : tolerance)
                << "element " << i << ", types " << static_cast<int>(in) << " to " << static_cast<int>(out) << ", bias "
                << static_cast<int>(bias) << ", bits " << bits;
          }
          ++tried;
        }
      }
    }
  }
  EXPECT_GT(tried, 900);
}

// A product in fp32 uses TF32 if and only if its shape requests it. Shapes with and without TF32 are distinct.
TEST_F(CublasLtMatmulTest, ProductsInTf32AreAskedForByTheirShape) {
  std::mt19937 random(7);
  const Libraries loops = EmulatedLibraries();
  const auto matmul = Make();
  Values a(device_.get(), Type::kFp32, 21, random), b(device_.get(), Type::kFp32, 21, random);
  std::vector<double> results[2];
  for (const Type out : {Type::kFp32, Type::kBf16}) {
    for (const bool tf32 : {false, true}) {
      MatmulShape s = Shape(5, 6, 3, Type::kFp32, out);
      s.tf32 = tf32;
      Values y(device_.get(), out, 30, random), expected(device_.get(), out, 30, random);
      ASSERT_TRUE(loops.matmul->Run(s, {a.data(), b.data(), nullptr, expected.data()}, {}).ok());
      const int asked = fake::seen.heuristics;
      ASSERT_TRUE(matmul->Prepare(s).ok());
      EXPECT_EQ(fake::seen.heuristics, asked + 1);
      ASSERT_TRUE(matmul->Run(s, {a.data(), b.data(), nullptr, y.data()}, {}).ok());
      EXPECT_EQ(fake::seen.launches.back().compute, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
      EXPECT_EQ(y.Read(), expected.Read());
      if (out == Type::kFp32) results[tf32] = y.Read();
    }
  }
  EXPECT_NE(results[0], results[1]);
  // Products of other types cannot be in TF32.
  MatmulShape s = Shape(4, 4, 4, Type::kBf16, Type::kBf16);
  s.tf32 = true;
  EXPECT_EQ(matmul->Prepare(s).message(), "a product in TF32 needs matrices of fp32");
  EXPECT_EQ(loops.matmul->Prepare(s).message(), "a product in TF32 needs matrices of fp32");
  s = Shape(4, 4, 4, Type::kFp32, Type::kFp32);
  s.tf32 = true;
  s.a.stride = 3;
  EXPECT_EQ(matmul->Prepare(s).message(), "cuBLASLt has no algorithm for a product of 4 x 4 by 4 x 4 in TF32");
}

TEST_F(CublasLtMatmulTest, AsksForOrderedSumsAndKnownAlignment) {
  std::mt19937 random(7);
  const auto matmul = Make();
  const MatmulShape s = Shape(8, 8, 8, Type::kBf16, Type::kBf16);
  ASSERT_TRUE(matmul->Prepare(s).ok());
  EXPECT_EQ(fake::seen.preference.workspace, 32u << 20);
  EXPECT_EQ(fake::seen.preference.reductions, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const uint32_t alignment : fake::seen.preference.alignment) EXPECT_EQ(alignment, 16u);
  // Descriptors and algorithm are kept: the same shape causes no further queries.
  const int asked = fake::seen.heuristics;
  Values a(device_.get(), Type::kBf16, 64, random), b(device_.get(), Type::kBf16, 64, random);
  Values y(device_.get(), Type::kBf16, 64, random);
  ASSERT_TRUE(matmul->Run(s, {a.data(), b.data(), nullptr, y.data()}, {}).ok());
  ASSERT_TRUE(matmul->Run(s, {a.data(), b.data(), nullptr, y.data()}, {}).ok());
  EXPECT_EQ(fake::seen.heuristics, asked);
  EXPECT_EQ(fake::seen.algorithm, 0);
  // For less aligned addresses, the backend asks cuBLASLt for another algorithm.
  const char* odd = static_cast<const char*>(a.data()) + 2;
  ASSERT_TRUE(matmul->Run(s, {odd, b.data(), nullptr, y.data()}, {}).ok());
  EXPECT_EQ(fake::seen.heuristics, asked + 1);
  EXPECT_EQ(fake::seen.preference.alignment[0], 2u);
  // The alignment of a bias counts too.
  MatmulShape biased = Shape(8, 8, 8, Type::kBf16, Type::kBf16);
  biased.bias = Type::kBf16;
  ASSERT_TRUE(matmul->Prepare(biased).ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(fake::seen.bias) % 32, 16u);
  ASSERT_TRUE(matmul->Run(biased, {odd, b.data(), b.data(), y.data()}, {}).ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(fake::seen.bias) % 4, 2u);
}

TEST_F(CublasLtMatmulTest, RefusesWhatItDoesNotMultiply) {
  const auto matmul = Make();
  MatmulShape s = Shape(4, 4, 4, Type::kBf16, Type::kFp16);
  s.y.stride = 8;
  EXPECT_EQ(matmul->Prepare(s).code(), absl::StatusCode::kInvalidArgument);
  s = Shape(4, 4, 4, Type::kBf16, Type::kBf16);
  s.b.type = Type::kFp32;
  EXPECT_EQ(matmul->Prepare(s).code(), absl::StatusCode::kInvalidArgument);
  s = Shape(4, 4, 4, Type::kInt32, Type::kInt32);
  EXPECT_EQ(matmul->Prepare(s).code(), absl::StatusCode::kInvalidArgument);
  // The rows overlap (stride 3, 4 columns), so cuBLASLt has no algorithm.
  s = Shape(4, 4, 4, Type::kBf16, Type::kBf16);
  s.a.stride = 3;
  EXPECT_EQ(matmul->Prepare(s).message(), "cuBLASLt has no algorithm for a product of 4 x 4 by 4 x 4");
}

// Prepared products run once before the first step, in idle memory, and nothing is allocated afterwards.
TEST_F(CublasLtMatmulTest, RunsPreparedProductsOnceBeforeTheFirstStep) {
  std::mt19937 random(7);
  CountingDevice device;
  auto made = MakeCublasLtMatmul(&lt_, &device, kDevice, {});
  ASSERT_TRUE(made.ok()) << made.status();
  Matmul& matmul = **made;
  alignas(256) static std::byte bytes[4096];
  IdleMemory idle(bytes, sizeof bytes);
  std::vector<MatmulShape> shapes = {
      Shape(8, 16, 4, Type::kBf16, Type::kBf16), Shape(3, 5, 7, Type::kFp32, Type::kFp32),
      // The result and the bias are converted: cuBLASLt does not support these types together.
      Shape(6, 10, 4, Type::kBf16, Type::kFp16), Shape(4, 4, 0, Type::kBf16, Type::kBf16)};
  shapes[2].bias = Type::kBf16;
  matmul.UseIdleMemory(&idle);
  fake::seen.launches.clear();
  for (const MatmulShape& shape : shapes) ASSERT_TRUE(matmul.Prepare(shape).ok());
  ASSERT_TRUE(matmul.Prepare(shapes[0]).ok());
  EXPECT_TRUE(fake::seen.launches.empty());
  EXPECT_EQ(device.allocations(), 0);
  ASSERT_TRUE(matmul.Settle().ok());
  // The matrices of cuBLASLt are stored by columns: its columns are our rows.
  std::vector<std::pair<int64_t, int64_t>> ran;
  for (const auto& launch : fake::seen.launches) {
    ran.emplace_back(launch.columns, launch.rows);
    for (const void* at : {launch.a, launch.b}) {
      EXPECT_TRUE(at >= bytes && at < bytes + sizeof bytes);
    }
  }
  EXPECT_EQ(ran, (std::vector<std::pair<int64_t, int64_t>>{{8, 16}, {3, 5}, {6, 10}}));
  EXPECT_GT(idle.touched(), 0);
  EXPECT_EQ(device.allocations(), 1);
  // A second Settle runs nothing.
  ASSERT_TRUE(matmul.Settle().ok());
  EXPECT_EQ(fake::seen.launches.size(), 3u);
  Values a(device_.get(), Type::kBf16, 64, random), b(device_.get(), Type::kBf16, 64, random);
  Values bias(device_.get(), Type::kBf16, 64, random), y(device_.get(), Type::kFp32, 128, random);
  for (const MatmulShape& shape : {shapes[0], shapes[2]}) {
    ASSERT_TRUE(matmul.Run(shape, {a.data(), b.data(), bias.data(), y.data()}, {}).ok());
  }
  EXPECT_EQ(device.allocations(), 1);
}

TEST_F(CublasLtMatmulTest, NoColumnsAreNothing) {
  std::mt19937 random(7);
  const auto matmul = Make();
  MatmulShape s = Shape(2, 3, 0, Type::kFp32, Type::kFp32);
  Values y(device_.get(), Type::kFp32, 6, random);
  const std::vector<double> before = y.Read();
  s.accumulate = true;
  ASSERT_TRUE(matmul->Run(s, {nullptr, nullptr, nullptr, y.data()}, {}).ok());
  EXPECT_EQ(y.Read(), before);
  s.accumulate = false;
  ASSERT_TRUE(matmul->Run(s, {nullptr, nullptr, nullptr, y.data()}, {}).ok());
  EXPECT_EQ(y.Read(), std::vector<double>(6, 0.0));
}

TEST_F(CublasLtMatmulTest, TuningTakesTheFastestAndKeepsIt) {
  const std::string path = ::testing::TempDir() + "/matmul.tuning";
  std::filesystem::remove(path);
  fake::slow_microseconds = 2000;
  const MatmulShape s = Shape(8, 16, 4, Type::kBf16, Type::kFp32);
  std::mt19937 random(7);
  Values a(device_.get(), Type::kBf16, 32, random), b(device_.get(), Type::kBf16, 64, random);
  Values y(device_.get(), Type::kFp32, 128, random);
  const auto run = [&](Matmul* matmul) {
    EXPECT_TRUE(matmul->Prepare(s).ok());
    EXPECT_TRUE(matmul->Run(s, {a.data(), b.data(), nullptr, y.data()}, {}).ok());
    return fake::seen.algorithm;
  };
  const auto off = Make();
  EXPECT_EQ(run(off.get()), 0);
  const auto writing = Make({TuningOptions::Mode::kWrite, path});
  EXPECT_EQ(run(writing.get()), fake::kFast);
  const auto table = TuningTable::Read(path);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->size(), 1u);
  EXPECT_EQ(table->Find({s, 16})->words[0], static_cast<uint64_t>(fake::kFast));
  // The file holds the whole algorithm, not only the attributes that cuBLASLt has names for.
  EXPECT_EQ(table->Find({s, 16})->words[7], fake::kMark);
  EXPECT_GT(table->Find({s, 16})->nanoseconds, 0);
  const auto reading = Make({TuningOptions::Mode::kRead, path});
  EXPECT_EQ(run(reading.get()), fake::kFast);
  EXPECT_EQ(reading->Digest(), writing->Digest());
  EXPECT_NE(reading->Digest(), off->Digest());
  // A shape that the file does not hold is multiplied as without a file.
  EXPECT_TRUE(reading->Prepare(Shape(4, 4, 4, Type::kBf16, Type::kFp32)).ok());
  // cuBLASLt checks each algorithm of the file before it runs. An algorithm does not run if cuBLASLt refuses its bytes,
  // if it adds partial sums in no fixed order, or if it needs more workspace than there is.
  const TunedAlgorithm good = *table->Find({s, 16});
  for (const auto& [word, value] : std::vector<std::pair<int, uint64_t>>{
           {0, 9}, {7, 0}, {1, CUBLASLT_REDUCTION_SCHEME_INPLACE}, {2, uint64_t{1} << 40}}) {
    TunedAlgorithm bad = good;
    bad.words[word] = value;
    TuningTable changed(kDevice);
    changed.Set({s, 16}, bad);
    ASSERT_TRUE(WriteFileAtomic(path, changed.Text()).ok());
    const int checks = fake::seen.checks;
    const size_t launches = fake::seen.launches.size();
    const absl::Status unknown = Make({TuningOptions::Mode::kRead, path})->Prepare(s);
    EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(unknown.message(), path +
                                     ": cuBLASLt cannot run the tuned algorithm for a product of 8 x 4 by 4 x 16; tune "
                                     "again with --tuning='write FILE'");
    EXPECT_EQ(fake::seen.checks, checks + 1);
    EXPECT_EQ(fake::seen.launches.size(), launches);
  }
  fake::slow_microseconds = 0;
  // A file that was written on another device, and a missing file, are errors.
  EXPECT_EQ(
      MakeCublasLtMatmul(&lt_, device_.get(), {80, 108, 130100, "NVIDIA A100"}, {TuningOptions::Mode::kRead, path})
          .status()
          .code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      MakeCublasLtMatmul(&lt_, device_.get(), kDevice, {TuningOptions::Mode::kRead, path + ".none"}).status().code(),
      absl::StatusCode::kNotFound);
}

// Tests the real library as far as possible without a GPU: it is found and its version is accepted. An older version is
// refused.
TEST(OpenCublasLt, FindsTheLibrary) {
  if (const char* path = std::getenv("TEST_CUDA_LIBRARY_PATH")) {
    SetLibraryPath(std::vector<std::string>(absl::StrSplit(path, ':', absl::SkipEmpty())));
  }
  const auto lt = OpenCublasLt();
  ASSERT_TRUE(lt.ok()) << lt.status();
  EXPECT_GE((*lt)->version, 130000);
  EXPECT_TRUE(CheckCublasLtVersion((*lt)->version, (*lt)->path).ok());
  EXPECT_EQ(CheckCublasLtVersion(120805, "/lib/x").message(),
            "backend cuda: cuBLASLt in /lib/x has version 12.8.5; allowed: 13.x");
}

}  // namespace
}  // namespace weft::exec::cuda
