// cuBLASLt as plain loops on the host. It implements what column-major matrices, transposes, strides, epilogues and
// attributes mean to cuBLASLt, so that the calls can be tested without a GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_FAKE_CUBLASLT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_FAKE_CUBLASLT_H_

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "executor/backends/cuda/cublaslt_library.h"
#include "executor/numerics/float_bits.h"
#include "executor/numerics/tf32_bits.h"

namespace weft::exec::cuda::fake {

struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Layout {
  cudaDataType_t type;
  int64_t rows, columns, stride;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

// Records the calls so far, for tests to check.
struct Seen {
  Preference preference;
  // The bias address in the latest query for algorithms.
  const void* bias = nullptr;
  int heuristics = 0;
  int checks = 0;
  int64_t algorithm = -1;
  // The products so far, in order: factors, result, and the size of the result as a column-major matrix.
  struct Launch {
    const void *a, *b, *d;
    int64_t rows, columns;
    cublasComputeType_t compute;
  };
  std::vector<Launch> launches;
};
inline Seen seen;
// Extra time of every algorithm except kFast.
inline int slow_microseconds = 0;
// The fast algorithm, and the number of algorithms.
inline constexpr int kFast = 2, kAlgorithms = 5;
// The last word of every valid algorithm.
inline constexpr uint64_t kMark = 0xa190;

inline double Load(const void* data, cudaDataType_t type, int64_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_16BF:
      return FloatFromBf16(static_cast<const uint16_t*>(data)[i]);
    default:
      return FloatFromFp16(static_cast<const uint16_t*>(data)[i]);
  }
}

inline void Store(void* data, cudaDataType_t type, int64_t i, double x) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = x;
      break;
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      break;
    case CUDA_R_16BF:
      static_cast<uint16_t*>(data)[i] = Bf16FromFloat(static_cast<float>(x));
      break;
    default:
      static_cast<uint16_t*>(data)[i] = Fp16FromFloat(static_cast<float>(x));
  }
}

// Returns an element of a factor, rounded to TF32 if the compute type requires it.
template <typename T>
T Factor(const Operation& o, const void* data, cudaDataType_t type, int64_t i) {
  const double x = Load(data, type, i);
  return static_cast<T>(o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? Tf32FromFloat(static_cast<float>(x)) : x);
}

// Multiplies with sums in T, the type that the compute type requires.
template <typename T>
void Multiply(const Operation& o, T alpha, const void* a, const Layout& la, const void* b, const Layout& lb, T beta,
              void* d, const Layout& ld) {
  const bool ta = o.transpose_a == CUBLAS_OP_T, tb = o.transpose_b == CUBLAS_OP_T;
  const int64_t depth = ta ? la.rows : la.columns;
  for (int64_t batch = 0; batch < ld.batch; ++batch) {
    for (int64_t j = 0; j < ld.columns; ++j) {
      for (int64_t i = 0; i < ld.rows; ++i) {
        T sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const int64_t at_a = batch * la.batch_stride + (ta ? i * la.stride + k : k * la.stride + i);
          const int64_t at_b = batch * lb.batch_stride + (tb ? k * lb.stride + j : j * lb.stride + k);
          sum = std::fma(Factor<T>(o, a, la.type, at_a), Factor<T>(o, b, lb.type, at_b), sum);
        }
        sum *= alpha;
        if (o.epilogue == CUBLASLT_EPILOGUE_BIAS) sum += static_cast<T>(Load(o.bias, ld.type, i));
        const int64_t at_d = batch * ld.batch_stride + j * ld.stride + i;
        if (beta != 0) sum += beta * static_cast<T>(Load(d, ld.type, at_d));
        Store(d, ld.type, at_d, sum);
      }
    }
  }
}

template <typename T, typename Opaque>
T& As(Opaque* opaque) {
  return *reinterpret_cast<T*>(opaque);
}

// True if the library supports this product: types, shapes that fit, sizes that agree.
inline bool Takes(const Operation& o, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const bool in_double = o.compute == CUBLAS_COMPUTE_64F;
  const bool half = a.type == CUDA_R_16F || a.type == CUDA_R_16BF;
  // TF32 needs factors in fp32.
  const bool single = o.compute == CUBLAS_COMPUTE_32F || (o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && !half);
  const bool types =
      in_double ? a.type == CUDA_R_64F && d.type == CUDA_R_64F && o.scale == CUDA_R_64F
                : single && o.scale == CUDA_R_32F &&
                      (half ? d.type == a.type || d.type == CUDA_R_32F : a.type == CUDA_R_32F && d.type == CUDA_R_32F);
  const bool ta = o.transpose_a == CUBLAS_OP_T, tb = o.transpose_b == CUBLAS_OP_T;
  return types && a.type == b.type && c.type == d.type && (ta ? a.columns : a.rows) == d.rows &&
         (tb ? b.rows : b.columns) == d.columns && (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) &&
         a.stride >= a.rows && b.stride >= b.rows && d.stride >= d.rows && a.batch == d.batch && b.batch == d.batch;
}

inline CublasLt Table() {
  CublasLt lt;
  lt.version = 130100;
  lt.GetStatusString = [](cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "invalid value";
  };
  lt.Create = [](cublasLtHandle_t* handle) {
    *handle = nullptr;
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.Destroy = [](cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; };
  lt.MatmulDescCreate = [](cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
    *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{compute, scale});
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatmulDescDestroy = [](cublasLtMatmulDesc_t operation) {
    delete &As<Operation>(operation);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatmulDescSetAttribute = [](cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t name, const void* value,
                                 size_t bytes) {
    Operation& o = As<Operation>(opaque);
    void* const to = name == CUBLASLT_MATMUL_DESC_TRANSA         ? static_cast<void*>(&o.transpose_a)
                     : name == CUBLASLT_MATMUL_DESC_TRANSB       ? &o.transpose_b
                     : name == CUBLASLT_MATMUL_DESC_EPILOGUE     ? &o.epilogue
                     : name == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? static_cast<void*>(&o.bias)
                                                                 : nullptr;
    if (to == nullptr || bytes != (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? 8u : 4u)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    std::memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatrixLayoutCreate = [](cublasLtMatrixLayout_t* made, cudaDataType_t type, uint64_t rows, uint64_t columns,
                             int64_t stride) {
    *made = reinterpret_cast<cublasLtMatrixLayout_t>(
        new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride});
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatrixLayoutDestroy = [](cublasLtMatrixLayout_t layout) {
    delete &As<Layout>(layout);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatrixLayoutSetAttribute = [](cublasLtMatrixLayout_t opaque, cublasLtMatrixLayoutAttribute_t name,
                                   const void* value, size_t bytes) {
    Layout& layout = As<Layout>(opaque);
    if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == 4) {
      std::memcpy(&layout.batch, value, 4);
    } else if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == 8) {
      std::memcpy(&layout.batch_stride, value, 8);
    } else {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatmulPreferenceCreate = [](cublasLtMatmulPreference_t* made) {
    *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatmulPreferenceDestroy = [](cublasLtMatmulPreference_t preference) {
    delete &As<Preference>(preference);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t opaque, cublasLtMatmulPreferenceAttributes_t name,
                                       const void* value, size_t bytes) {
    Preference& p = As<Preference>(opaque);
    if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8) {
      std::memcpy(&p.workspace, value, 8);
    } else if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == 4) {
      std::memcpy(&p.reductions, value, 4);
    } else if (name >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
               name <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && bytes == 4) {
      std::memcpy(&p.alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, 4);
    } else {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatmulAlgoGetHeuristic = [](cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                 cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                 cublasLtMatmulPreference_t preference, int most,
                                 cublasLtMatmulHeuristicResult_t* results, int* count) {
    seen.preference = As<Preference>(preference);
    seen.bias = As<Operation>(operation).bias;
    ++seen.heuristics;
    *count = 0;
    if (!Takes(As<Operation>(operation), As<Layout>(a), As<Layout>(b), As<Layout>(c), As<Layout>(d))) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    for (; *count < most && *count < kAlgorithms; ++*count) {
      results[*count] = {};
      results[*count].algo.data[0] = static_cast<uint64_t>(*count);
      results[*count].algo.data[7] = kMark;
      results[*count].state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
  };
  // An algorithm consists of its number, the scheme of its sums, its workspace, and a mark without which it is invalid.
  lt.MatmulAlgoCheck = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                          cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algorithm,
                          cublasLtMatmulHeuristicResult_t* result) {
    ++seen.checks;
    if (algorithm->data[0] >= kAlgorithms || algorithm->data[7] != kMark) return CUBLAS_STATUS_INVALID_VALUE;
    result->workspaceSize = algorithm->data[2];
    result->state = CUBLAS_STATUS_SUCCESS;
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.MatmulAlgoConfigGetAttribute = [](const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t name,
                                       void* value, size_t bytes, size_t* written) {
    if (name != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(value, &algorithm->data[1], bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.Matmul = [](cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                 cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb, const void* beta, const void* c,
                 cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t* algorithm,
                 void* workspace, size_t workspace_bytes, cudaStream_t) {
    const Operation& o = As<Operation>(operation);
    seen.algorithm = static_cast<int64_t>(algorithm->data[0]);
    seen.launches.push_back({a, b, d, As<Layout>(ld).rows, As<Layout>(ld).columns, o.compute});
    if (c != d || !Takes(o, As<Layout>(la), As<Layout>(lb), As<Layout>(lc), As<Layout>(ld))) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    // A product may overwrite all of its workspace, so this one overwrites the beginning.
    std::memset(workspace, 0xff, workspace_bytes < 4096 ? workspace_bytes : 4096);
    if (seen.algorithm != kFast) std::this_thread::sleep_for(std::chrono::microseconds(slow_microseconds));
    if (o.compute == CUBLAS_COMPUTE_64F) {
      Multiply<double>(o, *static_cast<const double*>(alpha), a, As<Layout>(la), b, As<Layout>(lb),
                       *static_cast<const double*>(beta), d, As<Layout>(ld));
    } else {
      Multiply<float>(o, *static_cast<const float*>(alpha), a, As<Layout>(la), b, As<Layout>(lb),
                      *static_cast<const float*>(beta), d, As<Layout>(ld));
    }
    return CUBLAS_STATUS_SUCCESS;
  };
  return lt;
}

}  // namespace weft::exec::cuda::fake

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_FAKE_CUBLASLT_H_
