#include "executor/backends/cuda/cublaslt_tuner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "executor/backends/cuda/library_bytes.h"
#include "executor/numerics/float_bits.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

constexpr int64_t kBlock = int64_t{1} << 20;
// An algorithm is measured in kRounds rounds of kRuns runs, after one round that does not count.
constexpr int kRounds = 3, kRuns = 4;

// Returns random values from -1 to 1, by a linear congruential generator (Knuth's MMIX constants).
std::vector<char> RandomBlock(Type type) {
  std::vector<char> block(kBlock);
  const int64_t size = BytesOf(type);
  uint64_t state = 1;
  for (int64_t i = 0; i + size <= kBlock; i += size) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = static_cast<double>(static_cast<int64_t>(state)) * 0x1p-63;
    const float narrow = static_cast<float>(value);
    const uint16_t half = type == Type::kBf16 ? Bf16FromFloat(narrow) : Fp16FromFloat(narrow);
    const void* bytes = size == 8   ? static_cast<const void*>(&value)
                        : size == 4 ? static_cast<const void*>(&narrow)
                                    : static_cast<const void*>(&half);
    std::memcpy(block.data() + i, bytes, static_cast<size_t>(size));
  }
  return block;
}

// True if cuBLASLt refuses an algorithm. That is no fault of the device: the heuristics also name algorithms that
// cuBLASLt then reports as unsupported or as an invalid value.
bool IsRefusal(const absl::Status& status) { return absl::IsUnimplemented(status) || absl::IsInvalidArgument(status); }

}  // namespace

absl::StatusOr<std::unique_ptr<CublasLtTuner>> CublasLtTuner::Make(ComputeDevice* device) {
  std::unique_ptr<CublasLtTuner> tuner(new CublasLtTuner(device));
  WEFT_ASSIGN_OR_RETURN(tuner->stream_, device->NewStream(ComputeDevice::Priority::kNormal));
  WEFT_ASSIGN_OR_RETURN(tuner->begin_, device->NewEvent(/*timed=*/true));
  WEFT_ASSIGN_OR_RETURN(tuner->end_, device->NewEvent(/*timed=*/true));
  return tuner;
}

absl::Status CublasLtTuner::Fill(void* to, int64_t bytes, Type type) {
  const std::vector<char> block = RandomBlock(type);
  char* destination = static_cast<char*>(to);
  int64_t filled = std::min(bytes, kBlock);
  WEFT_RETURN_IF_ERROR(device_->CopyNow(destination, block.data(), filled));
  // Each copy doubles the filled part.
  while (filled < bytes) {
    const int64_t more = std::min(filled, bytes - filled);
    WEFT_RETURN_IF_ERROR(device_->Copy(stream_, destination + filled, destination, more));
    filled += more;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CublasLtTuner::Measure(CublasLtProduct& product, cublasLtHandle_t handle,
                                               const MatmulPointers& pointers, void* workspace,
                                               int64_t workspace_bytes) {
  void* native = device_->NativeStream(stream_);
  int64_t least = 0;
  for (int round = -1; round < kRounds; ++round) {
    WEFT_RETURN_IF_ERROR(device_->Record(begin_, stream_));
    for (int run = 0; run < kRuns; ++run) {
      WEFT_RETURN_IF_ERROR(product.Run(handle, pointers, workspace, workspace_bytes, native));
    }
    WEFT_RETURN_IF_ERROR(device_->Record(end_, stream_));
    WEFT_RETURN_IF_ERROR(device_->Synchronize(end_));
    WEFT_ASSIGN_OR_RETURN(const int64_t begin, device_->TimeOf(begin_));
    WEFT_ASSIGN_OR_RETURN(const int64_t end, device_->TimeOf(end_));
    const int64_t each = std::max<int64_t>((end - begin) / kRuns, 1);
    // The first round only warms up.
    if (round >= 0 && (least == 0 || each < least)) least = each;
  }
  return least;
}

absl::Status CublasLtTuner::WarmUp(CublasLtProduct& product, cublasLtHandle_t handle,
                                   const std::vector<cublasLtMatmulAlgo_t>& algorithms, const MatmulPointers& pointers,
                                   void* workspace, int64_t workspace_bytes) {
  // A device takes less time than this to raise its clocks. Several small shapes reach this time together.
  constexpr int64_t kNanoseconds = 100'000'000;
  constexpr int kMaxMeasured = 32;
  if (algorithms.empty()) return absl::OkStatus();
  product.set_algorithm(algorithms.front());
  for (int i = 0; i < kMaxMeasured && warm_nanoseconds_ < kNanoseconds; ++i) {
    const absl::StatusOr<int64_t> time = Measure(product, handle, pointers, workspace, workspace_bytes);
    // Fastest also skips a refused algorithm.
    if (IsRefusal(time.status())) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(time.status());
    warm_nanoseconds_ += *time * kRuns * (kRounds + 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<char*> CublasLtTuner::Take(int64_t bytes, IdleMemory* idle) {
  if (idle != nullptr) {
    idle->Begin();
    if (void* const memory = idle->TakeApart(bytes)) return static_cast<char*>(memory);
  }
  WEFT_ASSIGN_OR_RETURN(void* const memory, memory_.Get(stream_, bytes));
  return static_cast<char*>(memory);
}

absl::StatusOr<CublasLtTuner::Best> CublasLtTuner::Fastest(const MatmulShape& shape, CublasLtProduct& product,
                                                           cublasLtHandle_t handle,
                                                           const std::vector<cublasLtMatmulAlgo_t>& algorithms,
                                                           int64_t workspace_bytes, IdleMemory* idle) {
  const MatmulShape& s = shape;
  const ProductBytes bytes = BytesOf(s);
  const int64_t a_bytes = Aligned(bytes.a), b_bytes = Aligned(bytes.b);
  const int64_t y_bytes = Aligned(bytes.y), bias_bytes = Aligned(bytes.bias);
  const absl::StatusOr<char*> memory = Take(workspace_bytes + a_bytes + b_bytes + y_bytes + bias_bytes, idle);
  if (absl::IsResourceExhausted(memory.status())) return Best();
  WEFT_RETURN_IF_ERROR(memory.status());
  char* const workspace = *memory;
  char* const a = workspace + workspace_bytes;
  char* const b = a + a_bytes;
  char* const y = b + b_bytes;
  char* const bias = y + y_bytes;
  WEFT_RETURN_IF_ERROR(Fill(a, a_bytes, s.a.type));
  WEFT_RETURN_IF_ERROR(Fill(b, b_bytes, s.b.type));
  WEFT_RETURN_IF_ERROR(device_->Clear(stream_, y, y_bytes));
  if (bias_bytes > 0) WEFT_RETURN_IF_ERROR(Fill(bias, bias_bytes, s.bias));
  const MatmulPointers pointers = {a, b, bias_bytes > 0 ? bias : nullptr, y};
  WEFT_RETURN_IF_ERROR(WarmUp(product, handle, algorithms, pointers, workspace, workspace_bytes));
  Best best;
  for (size_t i = 0; i < algorithms.size(); ++i) {
    product.set_algorithm(algorithms[i]);
    const absl::StatusOr<int64_t> time = Measure(product, handle, pointers, workspace, workspace_bytes);
    if (IsRefusal(time.status())) continue;
    WEFT_RETURN_IF_ERROR(time.status());
    if (best.nanoseconds == 0 || *time < best.nanoseconds) best = {i, *time};
  }
  return best;
}

}  // namespace weft::exec::cuda
