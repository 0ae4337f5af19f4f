#include "executor/backends/cuda/cublaslt_product.h"

#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/library_bytes.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

cudaDataType_t DataType(Type type) {
  switch (type) {
    case Type::kFp64:
      return CUDA_R_64F;
    case Type::kBf16:
      return CUDA_R_16BF;
    case Type::kFp16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

bool InDouble(const MatmulShape& shape) { return shape.a.type == Type::kFp64; }
// Products of fp32 matrices are computed in fp32: cuBLASLt uses TF32 only if the compute type requests it.
cublasComputeType_t ComputeType(const MatmulShape& shape) {
  if (InDouble(shape)) return CUBLAS_COMPUTE_64F;
  return shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}
cudaDataType_t ScaleType(const MatmulShape& shape) { return InDouble(shape) ? CUDA_R_64F : CUDA_R_32F; }

std::string Name(const MatmulShape& shape) {
  return absl::StrCat("a product of ", shape.batch == 1 ? "" : absl::StrCat(shape.batch, " times "), shape.m, " x ",
                      shape.k, " by ", shape.k, " x ", shape.n, shape.tf32 ? " in TF32" : "");
}

// Describes the matrix to cuBLASLt, which stores matrices by columns. A matrix of `rows` x `columns` stored by rows is
// the same memory as a matrix of `columns` x `rows` stored by columns.
absl::Status MakeLayout(const CublasLt* lt, const MatrixLayout& matrix, int64_t rows, int64_t columns, int64_t batch,
                        cublasLtMatrixLayout_t* layout) {
  WEFT_RETURN_IF_ERROR(
      lt->Error("making a layout", lt->MatrixLayoutCreate(layout, DataType(matrix.type), static_cast<uint64_t>(columns),
                                                          static_cast<uint64_t>(rows), matrix.stride)));
  if (batch == 1) return absl::OkStatus();
  const int32_t count = static_cast<int32_t>(batch);
  WEFT_RETURN_IF_ERROR(
      lt->Error("making a layout",
                lt->MatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count)));
  return lt->Error("making a layout", lt->MatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                                   &matrix.batch_stride, sizeof matrix.batch_stride));
}

int64_t Extent(const MatrixLayout& layout, int64_t rows, int64_t columns, int64_t batch) {
  return ((batch - 1) * layout.batch_stride + (rows - 1) * layout.stride + columns) * BytesOf(layout.type);
}

// Allows only partial sums in the compute type. Partial sums in the output's type would be rounded before the last sum.
constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

}  // namespace

ProductBytes BytesOf(const MatmulShape& s) {
  ProductBytes bytes;
  bytes.a = Extent(s.a, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.batch);
  bytes.b = Extent(s.b, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.batch);
  bytes.y = Extent(s.y, s.m, s.n, s.batch);
  if (s.bias != Type::kNone) bytes.bias = s.n * BytesOf(s.bias);
  return bytes;
}

bool IsDirectProduct(Type a, Type y) {
  switch (a) {
    case Type::kFp64:
      return y == Type::kFp64;
    case Type::kFp32:
      return y == Type::kFp32;
    case Type::kBf16:
    case Type::kFp16:
      return y == a || y == Type::kFp32;
    default:
      return false;
  }
}

absl::StatusOr<std::unique_ptr<CublasLtProduct>> CublasLtProduct::Make(const CublasLt* lt, const MatmulShape& shape,
                                                                       int64_t alignment) {
  if (shape.batch > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("cuBLASLt multiplies at most ", std::numeric_limits<int32_t>::max(),
                                                   " pairs of matrices at once; given: ", shape.batch));
  }
  std::unique_ptr<CublasLtProduct> product(new CublasLtProduct(lt, shape, alignment));
  WEFT_RETURN_IF_ERROR(product->Describe());
  return product;
}

CublasLtProduct::~CublasLtProduct() {
  for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) {
    if (layout != nullptr) lt_->MatrixLayoutDestroy(layout);
  }
  if (operation_ != nullptr) lt_->MatmulDescDestroy(operation_);
}

// y = op(a) op(b) by rows is yᵀ = op(b)ᵀ op(a)ᵀ by columns, and a matrix stored by rows is its own transpose stored by
// columns. So a and b change places, and each keeps its transpose flag.
absl::Status CublasLtProduct::Describe() {
  const MatmulShape& s = shape_;
  WEFT_RETURN_IF_ERROR(
      lt_->Error("making an operation", lt_->MatmulDescCreate(&operation_, ComputeType(s), ScaleType(s))));
  const cublasOperation_t first = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  WEFT_RETURN_IF_ERROR(
      lt_->Error("making an operation",
                 lt_->MatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first)));
  WEFT_RETURN_IF_ERROR(
      lt_->Error("making an operation",
                 lt_->MatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second)));
  if (s.bias != Type::kNone) {
    // cuBLASLt adds one number of the bias to each row of its result, which is stored by columns. These rows are the
    // columns of our result. The bias has the result's type.
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    WEFT_RETURN_IF_ERROR(
        lt_->Error("making an operation",
                   lt_->MatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue)));
    // The choice of algorithm depends on the alignment of this address (cublasLt.h). The address is a placeholder until
    // Run; it has exactly the alignment of the real addresses, and no higher one.
    const void* bias = reinterpret_cast<const void*>(static_cast<uintptr_t>(alignment_) * 257);
    WEFT_RETURN_IF_ERROR(
        lt_->Error("making an operation",
                   lt_->MatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias)));
  }
  WEFT_RETURN_IF_ERROR(MakeLayout(lt_, s.b, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.batch, &first_));
  WEFT_RETURN_IF_ERROR(MakeLayout(lt_, s.a, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.batch, &second_));
  return MakeLayout(lt_, s.y, s.m, s.n, s.batch, &result_);
}

absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> CublasLtProduct::Heuristics(cublasLtHandle_t handle,
                                                                              int64_t workspace_bytes, int most) const {
  cublasLtMatmulPreference_t preference = nullptr;
  WEFT_RETURN_IF_ERROR(lt_->Error("asking for algorithms", lt_->MatmulPreferenceCreate(&preference)));
  const uint64_t bytes = static_cast<uint64_t>(workspace_bytes);
  const uint32_t alignment = static_cast<uint32_t>(alignment_);
  cublasStatus_t status =
      lt_->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lt_->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &kReductions,
                                               sizeof kReductions);
  }
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = lt_->MatmulPreferenceSetAttribute(preference, name, &alignment, sizeof alignment);
    }
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lt_->MatmulAlgoGetHeuristic(handle, operation_, first_, second_, result_, result_, preference, most,
                                         results.data(), &count);
  }
  lt_->MatmulPreferenceDestroy(preference);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(results[i].algo);
  }
  // This is how cuBLASLt reports that it has no algorithm.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && algorithms.empty())) {
    return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for ", Name(shape_)));
  }
  WEFT_RETURN_IF_ERROR(lt_->Error(absl::StrCat("asking for algorithms for ", Name(shape_)), status));
  return algorithms;
}

absl::StatusOr<cublasLtMatmulAlgo_t> CublasLtProduct::FromTuned(cublasLtHandle_t handle, const TunedAlgorithm& tuned,
                                                                int64_t workspace_bytes) const {
  cublasLtMatmulAlgo_t algorithm;
  static_assert(sizeof algorithm == sizeof tuned.words);
  std::memcpy(&algorithm, tuned.words.data(), sizeof algorithm);
  cublasLtMatmulHeuristicResult_t result = {};
  cublasStatus_t status =
      lt_->MatmulAlgoCheck(handle, operation_, first_, second_, result_, result_, &algorithm, &result);
  uint32_t reduction = 0;
  size_t written = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lt_->MatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                               sizeof reduction, &written);
  }
  const bool ordered = reduction == CUBLASLT_REDUCTION_SCHEME_NONE || reduction == kReductions;
  if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS || !ordered ||
      result.workspaceSize > static_cast<size_t>(workspace_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("cuBLASLt cannot run the tuned algorithm for ", Name(shape_),
                                                   "; tune again with --tuning='write FILE'"));
  }
  return algorithm;
}

TunedAlgorithm CublasLtProduct::ToTuned(const cublasLtMatmulAlgo_t& algorithm) {
  TunedAlgorithm tuned;
  std::memcpy(tuned.words.data(), &algorithm, sizeof algorithm);
  return tuned;
}

absl::Status CublasLtProduct::Run(cublasLtHandle_t handle, const MatmulPointers& pointers, void* workspace,
                                  int64_t workspace_bytes, void* native_stream) {
  if (shape_.bias != Type::kNone) {
    WEFT_RETURN_IF_ERROR(
        lt_->Error("naming the bias", lt_->MatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                                  &pointers.bias, sizeof pointers.bias)));
  }
  const double alpha64 = shape_.scale, beta64 = shape_.accumulate ? 1 : 0;
  const float alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const bool in_double = InDouble(shape_);
  const void* alpha = in_double ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = in_double ? static_cast<const void*>(&beta64) : &beta32;
  const cublasStatus_t status = lt_->Matmul(
      handle, operation_, alpha, pointers.b, first_, pointers.a, second_, beta, pointers.y, result_, pointers.y,
      result_, &algorithm_, workspace, static_cast<size_t>(workspace_bytes), static_cast<cudaStream_t>(native_stream));
  // Build the name only for an error: it takes longer than the call.
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const absl::Status error = lt_->Error(Name(shape_), status);
  return status == CUBLAS_STATUS_INVALID_VALUE ? absl::InvalidArgumentError(error.message()) : error;
}

}  // namespace weft::exec::cuda
