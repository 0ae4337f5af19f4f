// Tests the tuner with a library that takes a given time for each product, on a device with a simulated clock.
#include "executor/backends/cuda/cublaslt_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "executor/backends/cuda/fake_cublaslt.h"
#include "executor/backends/cuda/library_bytes.h"
#include "executor/testing/clocked_device.h"

namespace weft::exec::cuda {
namespace {

// Result of one run of an algorithm in the test's library: the time it takes, or the error.
struct Answer {
  int64_t nanoseconds = 0;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

struct Launched {
  const char *a, *b, *bias, *d, *workspace;
  size_t workspace_bytes;
};

// State of the functions in the test's library table. It is global because those functions cannot capture variables.
struct Machine {
  ClockedDevice* device = nullptr;
  std::function<Answer(int algorithm, int run)> answer;
  std::vector<int> runs;
  std::vector<Launched> launched;
};
Machine machine;

class TestDevice : public ClockedDevice {
 public:
  TestDevice() : ClockedDevice({}, {}) {}
  absl::StatusOr<void*> Allocate(Place place, int64_t bytes) override {
    if (allocated + bytes > most) return absl::ResourceExhaustedError("full");
    allocated += bytes;
    return ClockedDevice::Allocate(place, bytes);
  }
  int64_t most = int64_t{1} << 30, allocated = 0;
};

class CublasLtTunerTest : public ::testing::Test {
 protected:
  static constexpr int64_t kWorkspace = 4096;

  CublasLtTunerTest() {
    lt_.Matmul = [](cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*, const void* first,
                    cublasLtMatrixLayout_t, const void* second, cublasLtMatrixLayout_t, const void*, const void*,
                    cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algorithm,
                    void* workspace, size_t workspace_bytes, cudaStream_t) {
      const int number = static_cast<int>(algorithm->data[0]);
      machine.runs.resize(std::max<size_t>(machine.runs.size(), number + 1));
      const Answer answer = machine.answer(number, machine.runs[number]++);
      if (answer.status != CUBLAS_STATUS_SUCCESS) return answer.status;
      // Stream 0 is the tuner's only stream.
      machine.device->Spend(0, answer.nanoseconds);
      const void* bias = fake::As<fake::Operation>(operation).bias;
      // cuBLASLt stores matrices by columns, so our b is its first matrix.
      machine.launched.push_back({static_cast<const char*>(second), static_cast<const char*>(first),
                                  static_cast<const char*>(bias), static_cast<const char*>(d),
                                  static_cast<const char*>(workspace), workspace_bytes});
      return CUBLAS_STATUS_SUCCESS;
    };
    machine = {};
    machine.device = &device_;
    tuner_ = *CublasLtTuner::Make(&device_);
    // The product is not square. y has another type than a and b and is larger than a block of random values.
    shape_.m = 600;
    shape_.n = 500;
    shape_.k = 7;
    shape_.a = {Type::kBf16, 7, 0};
    shape_.b = {Type::kBf16, 500, 0};
    shape_.y = {Type::kFp32, 500, 0};
    shape_.bias = Type::kFp32;
  }

  absl::StatusOr<CublasLtTuner::Best> Fastest(int algorithms, std::function<Answer(int, int)> answer,
                                              IdleMemory* idle = nullptr) {
    machine.answer = std::move(answer);
    machine.runs.clear();
    machine.launched.clear();
    auto product = CublasLtProduct::Make(&lt_, shape_, 16);
    if (!product.ok()) return product.status();
    std::vector<cublasLtMatmulAlgo_t> all(static_cast<size_t>(algorithms));
    for (int i = 0; i < algorithms; ++i) all[i].data[0] = static_cast<uint64_t>(i);
    return tuner_->Fastest(shape_, **product, nullptr, all, kWorkspace, idle);
  }

  CublasLt lt_ = fake::Table();
  TestDevice device_;
  std::unique_ptr<CublasLtTuner> tuner_;
  MatmulShape shape_;
};

TEST_F(CublasLtTunerTest, TheFastestWhereverItIs) {
  for (int fastest = 0; fastest < 5; ++fastest) {
    const auto best = Fastest(5, [&](int algorithm, int) { return Answer{algorithm == fastest ? 700 : 900}; });
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_EQ(best->index, static_cast<size_t>(fastest));
    EXPECT_EQ(best->nanoseconds, 700);
  }
  // If several algorithms are equally fast, the first one is chosen: the heuristics prefer it.
  EXPECT_EQ(Fastest(3, [](int, int) { return Answer{50}; })->index, 0u);
}

// The extra time of a first launch or of a disturbed round does not count against the algorithm.
TEST_F(CublasLtTunerTest, NeitherTheFirstLaunchNorADisturbedRoundCounts) {
  // Warm the device up first.
  ASSERT_TRUE(Fastest(1, [](int, int) { return Answer{100'000'000}; }).ok());
  const auto best = Fastest(2, [](int algorithm, int run) {
    if (algorithm == 1) return Answer{1000};
    return Answer{run == 0 ? 10'000'000 : run < 9 ? 5000 : 800};
  });
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->index, 0u);
  EXPECT_EQ(best->nanoseconds, 800);
  EXPECT_EQ(machine.runs[0], machine.runs[1]) << "all are measured alike";
  EXPECT_EQ(Fastest(1, [](int, int run) { return Answer{run < 4 ? 100 : 800}; })->nanoseconds, 800);
  // A run that is too short for the clock counts as 1 ns.
  EXPECT_EQ(Fastest(1, [](int, int) { return Answer{0}; })->nanoseconds, 1);
}

// A device at rest takes ten times as long at first.
TEST_F(CublasLtTunerTest, ADeviceAtRestIsWarmedUpOnce) {
  int64_t spent = 0;
  const auto product = [&](int64_t nanoseconds) {
    const int64_t taken = spent < 60'000'000 ? 10 * nanoseconds : nanoseconds;
    spent += taken;
    return Answer{taken};
  };
  for (int time = 0; time < 2; ++time) {
    const auto best = Fastest(2, [&](int algorithm, int) { return product(algorithm == 0 ? 700'000 : 800'000); });
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_EQ(best->index, 0u);
    EXPECT_EQ(best->nanoseconds, 700'000);
    EXPECT_EQ(machine.runs[0] > machine.runs[1], time == 0);
  }
  // One small product does not warm the device up, so the next product continues the warm-up.
  tuner_ = *CublasLtTuner::Make(&device_);
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(Fastest(2, [](int, int) { return Answer{1000}; }).ok());
    EXPECT_GT(machine.runs[0], machine.runs[1]);
  }
  // Algorithms that the library refuses during the warm-up are not chosen.
  tuner_ = *CublasLtTuner::Make(&device_);
  for (const cublasStatus_t refused : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE}) {
    const auto other =
        Fastest(2, [&](int algorithm, int) { return Answer{9, algorithm == 0 ? refused : CUBLAS_STATUS_SUCCESS}; });
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(other->index, 1u);
  }
}

TEST_F(CublasLtTunerTest, SkipsAlgorithmsThatTheLibraryRefuses) {
  const auto best = Fastest(3, [](int algorithm, int run) {
    // The library refuses one algorithm at once, and another one after a round.
    if (algorithm == 0) return Answer{1, CUBLAS_STATUS_NOT_SUPPORTED};
    if (algorithm == 1 && run >= 5) return Answer{1, CUBLAS_STATUS_INVALID_VALUE};
    return Answer{algorithm == 1 ? 10 : 3000};
  });
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->index, 2u);
  EXPECT_EQ(best->nanoseconds, 3000);
  // Any other error is a fault of the device and ends the tuning.
  const auto fault = Fastest(3, [](int algorithm, int) {
    return Answer{1, algorithm == 1 ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS};
  });
  EXPECT_EQ(fault.status().code(), absl::StatusCode::kInternal);
}

// Every matrix has its own aligned memory. The inputs hold random values, since a product of zeros would run faster.
TEST_F(CublasLtTunerTest, MatricesOfRandomValuesApartFromEachOther) {
  ASSERT_TRUE(Fastest(1, [](int, int) { return Answer{1}; }).ok());
  ASSERT_FALSE(machine.launched.empty());
  const Launched& at = machine.launched[0];
  EXPECT_EQ(at.workspace_bytes, static_cast<size_t>(kWorkspace));
  const ProductBytes bytes = BytesOf(shape_);
  const std::vector<std::pair<const char*, int64_t>> parts = {
      {at.workspace, kWorkspace}, {at.a, bytes.a}, {at.b, bytes.b}, {at.bias, bytes.bias}, {at.d, bytes.y}};
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parts[i].first) % 256, 0u) << i;
    for (size_t j = 0; j < i; ++j) {
      EXPECT_TRUE(parts[i].first + parts[i].second <= parts[j].first ||
                  parts[j].first + parts[j].second <= parts[i].first)
          << i << " lies in " << j;
    }
  }
  const auto spread = [](const void* data, cudaDataType_t type, int64_t elements) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < elements; ++i) {
      const double x = fake::Load(data, type, i);
      EXPECT_LE(std::abs(x), 1);
      sum += x;
      squares += x * x;
    }
    // Uniform from -1 to 1: the mean is 0 and the variance 1/3.
    EXPECT_NEAR(sum / static_cast<double>(elements), 0, 0.1);
    EXPECT_NEAR(squares / static_cast<double>(elements), 1.0 / 3, 0.05);
  };
  spread(at.a, CUDA_R_16BF, shape_.m * shape_.k);
  spread(at.b, CUDA_R_16BF, shape_.k * shape_.n);
  spread(at.bias, CUDA_R_32F, shape_.n);
}

// A matrix larger than the block of random values is filled to its end.
TEST_F(CublasLtTunerTest, LargeMatricesAreFilledToTheirEnd) {
  shape_.k = 1300;
  shape_.a.stride = 1300;
  ASSERT_GT(BytesOf(shape_).a, 1 << 20);
  ASSERT_TRUE(Fastest(1, [](int, int) { return Answer{1}; }).ok());
  const int64_t elements = shape_.m * shape_.k;
  int zeros = 0;
  for (int64_t i = elements - 1000; i < elements; ++i) zeros += fake::Load(machine.launched[0].a, CUDA_R_16BF, i) == 0;
  EXPECT_LT(zeros, 10);
}

TEST_F(CublasLtTunerTest, InIdleMemoryWhereThatHasRoom) {
  const ProductBytes bytes = BytesOf(shape_);
  const int64_t needed = kWorkspace + Aligned(bytes.a) + Aligned(bytes.b) + Aligned(bytes.y) + Aligned(bytes.bias);
  const auto host = MakeHostDevice();
  char* const block = static_cast<char*>(*host->Allocate(DEVICE, needed));
  IdleMemory room(block, needed);
  ASSERT_TRUE(Fastest(2, [](int, int) { return Answer{1}; }, &room).ok());
  EXPECT_EQ(device_.allocated, 0);
  for (const Launched& at : machine.launched) {
    for (const char* inside : {at.workspace, at.a, at.b, at.bias, at.d}) {
      EXPECT_TRUE(block <= inside && inside < block + needed);
    }
  }
  IdleMemory small(block, needed - 1);
  ASSERT_TRUE(Fastest(2, [](int, int) { return Answer{1}; }, &small).ok());
  EXPECT_GE(device_.allocated, needed);
}

// Without memory to measure in, nothing runs and the heuristics' first choice is taken.
TEST_F(CublasLtTunerTest, WithoutMemoryTheFirstIsTaken) {
  device_.most = 1000;
  const auto best = Fastest(3, [](int algorithm, int) { return Answer{algorithm == 1 ? 1 : 100}; });
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->index, 0u);
  EXPECT_EQ(best->nanoseconds, 0);
  EXPECT_TRUE(machine.launched.empty());
}

}  // namespace
}  // namespace weft::exec::cuda
