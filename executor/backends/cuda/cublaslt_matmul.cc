#include "executor/backends/cuda/cublaslt_matmul.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cublaslt_product.h"
#include "executor/backends/cuda/cublaslt_tuner.h"
#include "executor/backends/cuda/kernels/sum_parts.h"
#include "executor/backends/cuda/library_bytes.h"
#include "executor/backends/cuda/library_workspace.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Workspace that kernels for Hopper need for full speed. Other devices need less, and more does no harm.
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
// Alignment that vector loads need. Values in a program's arena always have it.
constexpr int64_t kAlignment = 16;

struct KeyHash {
  size_t operator()(const std::pair<MatmulShape, int64_t>& key) const {
    const MatmulShape& s = key.first;
    size_t hash = static_cast<size_t>(key.second);
    for (const int64_t x :
         {s.m, s.n, s.k, s.batch, int64_t{s.transpose_a}, int64_t{s.transpose_b}, s.a.stride, s.b.stride, s.y.stride,
          s.a.batch_stride, s.b.batch_stride, s.y.batch_stride, static_cast<int64_t>(s.a.type),
          static_cast<int64_t>(s.y.type), static_cast<int64_t>(s.bias), int64_t{s.accumulate}, int64_t{s.tf32}}) {
      hash = hash * 0x9e3779b97f4a7c15u + static_cast<size_t>(x);
    }
    return hash ^ std::hash<double>()(s.scale);
  }
};

class CublasLtMatmul : public Matmul {
 public:
  CublasLtMatmul(const CublasLt* lt, ComputeDevice* device, cublasLtHandle_t handle, TuningOptions options,
                 TuningTable table)
      : lt_(lt),
        device_(device),
        handle_(handle),
        options_(std::move(options)),
        table_(std::move(table)),
        chosen_(table_.device()),
        workspace_(device) {}
  ~CublasLtMatmul() override { lt_->Destroy(handle_); }

  absl::Status Prepare(const MatmulShape& shape) override {
    // If k is 0, RunEmpty handles the product without cuBLASLt.
    if (shape.k == 0) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(ProductPlan * plan, FindProductPlan(shape, kAlignment));
    workspace_.Reserve(kWorkspaceBytes + plan->extra_bytes());
    if (!plan->prepared) prepared_.push_back(shape);
    plan->prepared = true;
    return absl::OkStatus();
  }

  void UseIdleMemory(IdleMemory* memory) override { idle_ = memory; }

  absl::Status Settle() override {
    WEFT_ASSIGN_OR_RETURN(void* workspace, workspace_.Settle());
    IdleMemory* const idle = std::exchange(idle_, nullptr);
    for (const MatmulShape& shape : std::exchange(prepared_, {})) {
      if (idle == nullptr) continue;
      idle->Begin();
      const ProductBytes bytes = BytesOf(shape);
      MatmulPointers pointers;
      pointers.a = idle->Take(bytes.a);
      pointers.b = idle->Take(bytes.b);
      pointers.y = idle->Take(bytes.y);
      if (shape.bias != Type::kNone) pointers.bias = idle->Take(bytes.bias);
      // The matrices of every step of the program fit into the idle memory. A product that does not fit belongs to no
      // step, so it need not run here.
      if (pointers.a == nullptr || pointers.b == nullptr || pointers.y == nullptr) continue;
      if (shape.bias != Type::kNone && pointers.bias == nullptr) continue;
      WEFT_ASSIGN_OR_RETURN(const ProductPlan* plan, FindProductPlan(shape, kAlignment));
      WEFT_RETURN_IF_ERROR(Enqueue(shape, *plan, pointers, workspace, /*native_stream=*/nullptr));
    }
    return absl::OkStatus();
  }

  absl::Status Run(const MatmulShape& shape, const MatmulPointers& pointers, const StreamRef& stream) override {
    if (shape.k == 0) return RunEmpty(shape, pointers, stream);
    WEFT_ASSIGN_OR_RETURN(const ProductPlan* plan, FindProductPlan(shape, AlignmentOf(shape, pointers)));
    WEFT_ASSIGN_OR_RETURN(void* workspace, workspace_.Get(stream.number, kWorkspaceBytes + plan->extra_bytes()));
    return Enqueue(shape, *plan, pointers, workspace, stream.native);
  }

  std::string Digest() const override { return chosen_.Digest(); }

 private:
  // How a shape is multiplied: directly, or in types that cuBLASLt supports, with a conversion before or after.
  struct ProductPlan {
    MatmulShape direct;
    std::unique_ptr<CublasLtProduct> product;
    // Bytes, after the workspace, of the result and of the bias in the types that cuBLASLt supports; 0 = no conversion.
    int64_t product_bytes = 0, bias_bytes = 0;
    bool prepared = false;

    int64_t extra_bytes() const { return product_bytes + bias_bytes; }
  };

  // `workspace` has kWorkspaceBytes, followed by plan.extra_bytes().
  absl::Status Enqueue(const MatmulShape& shape, const ProductPlan& plan, const MatmulPointers& pointers,
                       void* workspace, void* native_stream) {
    char* extra = static_cast<char*>(workspace) + kWorkspaceBytes;
    MatmulPointers direct = pointers;
    if (plan.product_bytes > 0) direct.y = extra;
    if (plan.bias_bytes > 0) {
      void* bias = extra + plan.product_bytes;
      AddValues cast;
      cast.values = {const_cast<void*>(pointers.bias), shape.bias};
      cast.elements = shape.n;
      cast.destination = {bias, plan.direct.bias};
      WEFT_RETURN_IF_ERROR(Check(Launch(cast, native_stream)));
      direct.bias = bias;
    }
    WEFT_RETURN_IF_ERROR(plan.product->Run(handle_, direct, workspace, kWorkspaceBytes, native_stream));
    if (plan.product_bytes == 0) return absl::OkStatus();
    AddValues add;
    add.values = {extra, plan.direct.y.type};
    add.elements = shape.batch * shape.m * shape.n;
    add.accumulate = shape.accumulate;
    add.destination = {pointers.y, shape.y.type};
    return Check(Launch(add, native_stream));
  }

  static absl::Status Check(Outcome outcome) {
    return outcome == nullptr ? absl::OkStatus() : absl::InternalError(absl::StrCat("launching a kernel: ", outcome));
  }

  static int64_t AlignmentOf(const MatmulShape& shape, const MatmulPointers& pointers) {
    // The alignment holds for all operands, also for the bias. The bias may be null.
    const uintptr_t all = reinterpret_cast<uintptr_t>(pointers.a) | reinterpret_cast<uintptr_t>(pointers.b) |
                          reinterpret_cast<uintptr_t>(pointers.y) | reinterpret_cast<uintptr_t>(pointers.bias);
    return all % kAlignment == 0 ? kAlignment : std::min(BytesOf(shape.a.type), BytesOf(shape.y.type));
  }

  // Handles k = 0: y becomes zero, or with `accumulate` keeps its value.
  absl::Status RunEmpty(const MatmulShape& shape, const MatmulPointers& pointers, const StreamRef& stream) {
    if (shape.bias != Type::kNone || shape.y.stride != shape.n || shape.batch != 1) {
      return absl::InvalidArgumentError(
          "weft does not compute a product with an inner dimension of 0 if it has a bias, is batched, or is not dense");
    }
    if (shape.accumulate) return absl::OkStatus();
    return device_->Clear(stream.number, pointers.y, shape.m * shape.n * BytesOf(shape.y.type));
  }

  absl::StatusOr<ProductPlan*> FindProductPlan(const MatmulShape& shape, int64_t alignment) {
    const std::pair<MatmulShape, int64_t> key(shape, alignment);
    if (const auto found = product_plans_.find(key); found != product_plans_.end()) return found->second.get();
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<ProductPlan> plan, MakeProductPlan(shape, alignment));
    return product_plans_.emplace(key, std::move(plan)).first->second.get();
  }

  absl::StatusOr<std::unique_ptr<ProductPlan>> MakeProductPlan(const MatmulShape& shape, int64_t alignment) {
    auto plan = std::make_unique<ProductPlan>();
    plan->direct = shape;
    MatmulShape& direct = plan->direct;
    const bool floating = shape.a.type == Type::kFp64 || shape.a.type == Type::kFp32 || shape.a.type == Type::kBf16 ||
                          shape.a.type == Type::kFp16;
    if (shape.a.type != shape.b.type || !floating) {
      return absl::InvalidArgumentError(
          "the matrices of a product must have one type, which must be fp64, fp32, bf16 or fp16");
    }
    if (shape.tf32 && shape.a.type != Type::kFp32) {
      return absl::InvalidArgumentError("a product in TF32 needs matrices of fp32");
    }
    if (!IsDirectProduct(shape.a.type, shape.y.type)) {
      if (shape.y.stride != shape.n || (shape.batch > 1 && shape.y.batch_stride != shape.m * shape.n)) {
        return absl::InvalidArgumentError("the result of a product must be dense if cuBLASLt cannot write its type");
      }
      direct.y.type = shape.a.type == Type::kFp64 ? Type::kFp64 : Type::kFp32;
      direct.accumulate = false;
      plan->product_bytes = Aligned(shape.batch * shape.m * shape.n * BytesOf(direct.y.type));
    }
    if (shape.bias != Type::kNone && shape.bias != direct.y.type) {
      direct.bias = direct.y.type;
      plan->bias_bytes = Aligned(shape.n * BytesOf(direct.bias));
    }
    // The alignment holds for `direct` too: converted operands lie in the workspace, which is always aligned.
    WEFT_ASSIGN_OR_RETURN(plan->product, CublasLtProduct::Make(lt_, direct, alignment));
    WEFT_RETURN_IF_ERROR(ChooseAlgorithm(direct, alignment, *plan->product));
    return plan;
  }

  absl::Status ChooseAlgorithm(const MatmulShape& shape, int64_t alignment, CublasLtProduct& product) {
    const TuningKey key = {shape, alignment};
    if (options_.mode == TuningOptions::Mode::kRead) {
      if (const TunedAlgorithm* tuned = table_.Find(key)) {
        const auto algorithm = product.FromTuned(handle_, *tuned, kWorkspaceBytes);
        if (!algorithm.ok()) {
          return absl::InvalidArgumentError(absl::StrCat(options_.path, ": ", algorithm.status().message()));
        }
        product.set_algorithm(*algorithm);
        chosen_.Set(key, CublasLtProduct::ToTuned(*algorithm));
        return absl::OkStatus();
      }
    }
    const bool tune = options_.mode == TuningOptions::Mode::kWrite;
    absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> algorithms =
        product.Heuristics(handle_, kWorkspaceBytes, tune ? kTunedCandidates : 1);
    if (!algorithms.ok()) {
      return absl::IsUnimplemented(algorithms.status())
                 ? absl::InvalidArgumentError(std::string(algorithms.status().message()))
                 : algorithms.status();
    }
    if (!tune) {
      product.set_algorithm(algorithms->front());
      chosen_.Set(key, CublasLtProduct::ToTuned(algorithms->front()));
      return absl::OkStatus();
    }
    if (tuner_ == nullptr) {
      WEFT_ASSIGN_OR_RETURN(tuner_, CublasLtTuner::Make(device_));
    }
    WEFT_ASSIGN_OR_RETURN(const CublasLtTuner::Best best,
                          tuner_->Fastest(shape, product, handle_, *algorithms, kWorkspaceBytes, idle_));
    product.set_algorithm((*algorithms)[best.index]);
    TunedAlgorithm tuned = CublasLtProduct::ToTuned((*algorithms)[best.index]);
    tuned.nanoseconds = best.nanoseconds;
    chosen_.Set(key, tuned);
    // If the time is 0, the product was not measured for lack of memory.
    if (best.nanoseconds == 0) return absl::OkStatus();
    TuningTable one(table_.device());
    one.Set(key, tuned);
    return one.MergeInto(options_.path);
  }

  const CublasLt* lt_;
  ComputeDevice* device_;
  cublasLtHandle_t handle_;
  TuningOptions options_;
  // The algorithms read from the file, and the algorithms that this run uses.
  TuningTable table_;
  TuningTable chosen_;
  LibraryWorkspace workspace_;
  std::unique_ptr<CublasLtTuner> tuner_;
  // Used until Settle: memory that trial runs may use, and the shapes prepared so far.
  IdleMemory* idle_ = nullptr;
  std::vector<MatmulShape> prepared_;
  std::unordered_map<std::pair<MatmulShape, int64_t>, std::unique_ptr<ProductPlan>, KeyHash> product_plans_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> MakeCublasLtMatmul(const CublasLt* lt, ComputeDevice* device,
                                                           const TuningDevice& described, const TuningOptions& tuning) {
  TuningTable table(described);
  if (tuning.mode == TuningOptions::Mode::kRead) {
    WEFT_ASSIGN_OR_RETURN(table, TuningTable::Read(tuning.path));
    WEFT_RETURN_IF_ERROR(table.CheckDevice(described, tuning.path));
  } else if (tuning.mode == TuningOptions::Mode::kWrite) {
    // Checks before the measurements, not after, that the file can be written and that an existing file is a table of
    // this device.
    WEFT_RETURN_IF_ERROR(table.MergeInto(tuning.path));
  }
  cublasLtHandle_t handle = nullptr;
  WEFT_RETURN_IF_ERROR(lt->Error("starting it on the device", lt->Create(&handle)));
  auto matmul = std::make_unique<CublasLtMatmul>(lt, device, handle, tuning, std::move(table));
  return matmul;
}

}  // namespace weft::exec::cuda
