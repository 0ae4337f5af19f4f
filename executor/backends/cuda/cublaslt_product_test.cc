// Tests descriptions of products on a library that counts the objects it makes and fails on request.
// cublaslt_matmul_test.cc checks that the products are right.
#include "executor/backends/cuda/cublaslt_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "executor/backends/cuda/fake_cublaslt.h"
#include "executor/backends/cuda/library_bytes.h"

namespace weft::exec::cuda {
namespace {

// State of the functions in the test's library table. It is global because those functions cannot capture variables.
struct Count {
  int alive = 0;
  // Number of calls so far that could have failed, and the index of the call that must fail; -1 = none.
  int calls = 0, fails = -1;
};
Count count;

bool Fails() { return count.calls++ == count.fails; }

CublasLt CountingTable() {
  static const CublasLt plain = fake::Table();
  CublasLt lt = plain;
  lt.MatmulDescCreate = [](cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
    if (Fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    ++count.alive;
    return plain.MatmulDescCreate(made, compute, scale);
  };
  lt.MatmulDescDestroy = [](cublasLtMatmulDesc_t operation) {
    --count.alive;
    return plain.MatmulDescDestroy(operation);
  };
  lt.MatmulDescSetAttribute = [](cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, const void* value,
                                 size_t bytes) {
    return Fails() ? CUBLAS_STATUS_INVALID_VALUE : plain.MatmulDescSetAttribute(operation, name, value, bytes);
  };
  lt.MatrixLayoutCreate = [](cublasLtMatrixLayout_t* made, cudaDataType_t type, uint64_t rows, uint64_t columns,
                             int64_t stride) {
    if (Fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    ++count.alive;
    return plain.MatrixLayoutCreate(made, type, rows, columns, stride);
  };
  lt.MatrixLayoutDestroy = [](cublasLtMatrixLayout_t layout) {
    --count.alive;
    return plain.MatrixLayoutDestroy(layout);
  };
  lt.MatrixLayoutSetAttribute = [](cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                   const void* value, size_t bytes) {
    return Fails() ? CUBLAS_STATUS_INVALID_VALUE : plain.MatrixLayoutSetAttribute(layout, name, value, bytes);
  };
  lt.MatmulPreferenceCreate = [](cublasLtMatmulPreference_t* made) {
    if (Fails()) return CUBLAS_STATUS_ALLOC_FAILED;
    ++count.alive;
    return plain.MatmulPreferenceCreate(made);
  };
  lt.MatmulPreferenceDestroy = [](cublasLtMatmulPreference_t preference) {
    --count.alive;
    return plain.MatmulPreferenceDestroy(preference);
  };
  lt.MatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
                                       const void* value, size_t bytes) {
    return Fails() ? CUBLAS_STATUS_INVALID_VALUE : plain.MatmulPreferenceSetAttribute(preference, name, value, bytes);
  };
  lt.MatmulAlgoGetHeuristic = [](cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                 cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                 cublasLtMatmulPreference_t preference, int most,
                                 cublasLtMatmulHeuristicResult_t* results, int* found) {
    if (Fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    return plain.MatmulAlgoGetHeuristic(handle, operation, a, b, c, d, preference, most, results, found);
  };
  return lt;
}

MatmulShape Shape(bool transpose_a, bool transpose_b, int64_t batch) {
  MatmulShape s;
  s.m = 3;
  s.n = 5;
  s.k = 4;
  s.transpose_a = transpose_a;
  s.transpose_b = transpose_b;
  s.a = {Type::kBf16, (transpose_a ? s.m : s.k) + 2, 0};
  s.b = {Type::kBf16, (transpose_b ? s.k : s.n) + 1, 0};
  s.y = {Type::kFp32, s.n + 3, 0};
  s.batch = batch;
  if (batch > 1) s.a.batch_stride = 40, s.b.batch_stride = 50, s.y.batch_stride = 60;
  s.bias = Type::kFp32;
  return s;
}

// Returns the bytes up to the end of the last element of the matrix. Finds that element by visiting every element, with
// the formula in matmul.h.
int64_t Touched(const MatrixLayout& matrix, int64_t rows, int64_t columns, int64_t batch) {
  int64_t last = -1;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) last = std::max(last, b * matrix.batch_stride + i * matrix.stride + j);
    }
  }
  return (last + 1) * BytesOf(matrix.type);
}

TEST(BytesOfProductTest, ToBehindTheLastElement) {
  for (int bits = 0; bits < 4; ++bits) {
    for (int64_t batch : {1, 2, 5}) {
      MatmulShape s = Shape(bits & 1, bits & 2, batch);
      const ProductBytes bytes = BytesOf(s);
      EXPECT_EQ(bytes.a, s.transpose_a ? Touched(s.a, s.k, s.m, batch) : Touched(s.a, s.m, s.k, batch));
      EXPECT_EQ(bytes.b, s.transpose_b ? Touched(s.b, s.n, s.k, batch) : Touched(s.b, s.k, s.n, batch));
      EXPECT_EQ(bytes.y, Touched(s.y, s.m, s.n, batch));
      EXPECT_EQ(bytes.bias, 5 * 4);
      s.bias = Type::kNone;
      EXPECT_EQ(BytesOf(s).bias, 0);
    }
  }
}

// IsDirectProduct is true exactly if the library has an algorithm for the types.
TEST(IsDirectProductTest, IsWhatTheLibraryTakes) {
  const CublasLt lt = fake::Table();
  for (const Type a : {Type::kFp64, Type::kFp32, Type::kBf16, Type::kFp16}) {
    for (const Type y : {Type::kFp64, Type::kFp32, Type::kBf16, Type::kFp16}) {
      MatmulShape s = Shape(false, false, 1);
      s.a.type = s.b.type = a;
      s.y.type = s.bias = y;
      const auto product = CublasLtProduct::Make(&lt, s, 16);
      ASSERT_TRUE(product.ok()) << product.status();
      EXPECT_EQ((*product)->Heuristics(nullptr, 0, 1).ok(), IsDirectProduct(a, y));
    }
  }
  for (const Type type : {Type::kNone, Type::kInt32}) EXPECT_FALSE(IsDirectProduct(type, Type::kFp32));
}

// Whichever call fails, an error is returned and no object is left over.
TEST(CublasLtProductTest, EveryFailureIsReportedAndLeavesNothing) {
  const CublasLt lt = CountingTable();
  for (int64_t batch : {1, 3}) {
    const MatmulShape s = Shape(true, false, batch);
    const auto make_and_ask = [&]() -> absl::Status {
      auto product = CublasLtProduct::Make(&lt, s, 16);
      if (!product.ok()) return product.status();
      return (*product)->Heuristics(nullptr, 1 << 20, 4).status();
    };
    count = {};
    ASSERT_TRUE(make_and_ask().ok());
    EXPECT_EQ(count.alive, 0);
    const int calls = count.calls;
    EXPECT_GE(calls, batch == 1 ? 16 : 22);
    for (int fails = 0; fails < calls; ++fails) {
      count = {};
      count.fails = fails;
      const absl::Status status = make_and_ask();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << "call " << fails;
      EXPECT_EQ(status.message().substr(0, 10), "cuBLASLt, ") << status;
      EXPECT_EQ(count.alive, 0) << "call " << fails;
    }
  }
}

TEST(CublasLtProductTest, AsManyAlgorithmsAsAreAskedFor) {
  const CublasLt lt = fake::Table();
  const auto product = *CublasLtProduct::Make(&lt, Shape(false, true, 1), 16);
  for (int most : {1, 2, fake::kAlgorithms, 100}) {
    const auto algorithms = product->Heuristics(nullptr, 1 << 20, most);
    ASSERT_TRUE(algorithms.ok()) << algorithms.status();
    EXPECT_EQ(algorithms->size(), static_cast<size_t>(std::min(most, fake::kAlgorithms)));
    EXPECT_EQ((*algorithms)[0].data[0], 0u) << "not the library's first";
    // Converting an algorithm to the form of the file and back loses nothing.
    for (const cublasLtMatmulAlgo_t& algorithm : *algorithms) {
      const auto again = product->FromTuned(nullptr, CublasLtProduct::ToTuned(algorithm), 1 << 20);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(std::equal(std::begin(algorithm.data), std::end(algorithm.data), std::begin(again->data)));
    }
  }
}

// An algorithm may use the workspace up to its last byte, and no more.
TEST(CublasLtProductTest, ATunedAlgorithmFitsTheWorkspace) {
  const CublasLt lt = fake::Table();
  const auto product = *CublasLtProduct::Make(&lt, Shape(false, false, 1), 16);
  TunedAlgorithm tuned = CublasLtProduct::ToTuned((*product->Heuristics(nullptr, 1 << 20, 1))[0]);
  tuned.words[2] = 5000;
  EXPECT_TRUE(product->FromTuned(nullptr, tuned, 5000).ok());
  EXPECT_EQ(
      product->FromTuned(nullptr, tuned, 4999).status().message(),
      "cuBLASLt cannot run the tuned algorithm for a product of 3 x 4 by 4 x 5; tune again with --tuning='write FILE'");
}

TEST(CublasLtProductTest, MorePairsThanTheLibraryCounts) {
  const CublasLt lt = fake::Table();
  EXPECT_TRUE(CublasLtProduct::Make(&lt, Shape(false, false, (int64_t{1} << 31) - 1), 16).ok());
  const absl::Status status = CublasLtProduct::Make(&lt, Shape(false, false, int64_t{1} << 31), 16).status();
  EXPECT_EQ(status.message(), "cuBLASLt multiplies at most 2147483647 pairs of matrices at once; given: 2147483648");
}

}  // namespace
}  // namespace weft::exec::cuda
