#include "executor/backends/cuda/cudnn_convolution.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cudnn_convolution_choice.h"
#include "executor/backends/cuda/kernels/broadcast.h"
#include "executor/backends/cuda/kernels/swap_axes.h"
#include "executor/backends/cuda/library_bytes.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

class CudnnConvolution : public FusedConvolution {
 public:
  explicit CudnnConvolution(std::shared_ptr<CudnnSession> session) : session_(std::move(session)) {}

  bool Has(const ConvolutionShape& shape, ConvolutionPart part) override {
    return Find(shape, part, false).choice != nullptr &&
           (part == ConvolutionPart::kForward || Find(shape, part, true).choice != nullptr);
  }

  absl::Status Prepare(const ConvolutionShape& shape, ConvolutionPart part) override {
    WEFT_RETURN_IF_ERROR(Compile(Find(shape, part, false)));
    return part == ConvolutionPart::kForward ? absl::OkStatus() : Compile(Find(shape, part, true));
  }

  absl::Status Settle(IdleMemory& memory) override {
    WEFT_ASSIGN_OR_RETURN(void* const workspace, session_->workspace().Settle());
    for (const auto& entry : entries_) {
      if (!entry->plan.has_value() || std::exchange(entry->settled, true)) continue;
      const ConvolutionShape& shape = entry->shape;
      const int64_t element = shape.type == Type::kFp32 ? 4 : 2;
      const int64_t rows = shape.samples * shape.out_height() * shape.out_width();
      memory.Begin();
      const Data data = {memory.Take(shape.samples * shape.height * shape.width * shape.channels * element),
                         memory.Take(WeightBytes(shape)), memory.Take(rows * shape.outputs * element)};
      void* const bias = memory.Take(shape.outputs * element);
      if (data.x == nullptr || data.weight == nullptr || data.y == nullptr || bias == nullptr) continue;
      WEFT_RETURN_IF_ERROR(Enqueue(*entry, data, workspace, StreamRef{}));
      if (entry->part == ConvolutionPart::kForward) WEFT_RETURN_IF_ERROR(AddBias(shape, bias, data.y, StreamRef{}));
    }
    return absl::OkStatus();
  }

  absl::Status Forward(const ConvolutionShape& shape, const void* x, const void* weight, const void* bias, void* y,
                       const StreamRef& stream) override {
    WEFT_RETURN_IF_ERROR(Run(shape, ConvolutionPart::kForward, false, Of(x, weight, y), stream));
    return bias == nullptr ? absl::OkStatus() : AddBias(shape, bias, y, stream);
  }

  absl::Status Input(const ConvolutionShape& shape, const void* dy, const void* weight, bool accumulate, void* dx,
                     const StreamRef& stream) override {
    return Run(shape, ConvolutionPart::kInput, accumulate, Of(dx, weight, dy), stream);
  }

  absl::Status Weight(const ConvolutionShape& shape, const void* dy, const void* x, bool accumulate, void* dweight,
                      const StreamRef& stream) override {
    return Run(shape, ConvolutionPart::kWeight, accumulate, Of(x, dweight, dy), stream);
  }

 private:
  // The tensors of a convolution. The forward writes y; the derivatives write x or weight.
  struct Data {
    void *x, *weight, *y;
  };
  static Data Of(const void* x, const void* weight, const void* y) {
    return {const_cast<void*>(x), const_cast<void*>(weight), const_cast<void*>(y)};
  }

  static absl::Status Check(Outcome outcome) {
    return outcome == nullptr ? absl::OkStatus() : absl::InternalError(absl::StrCat("launching a kernel: ", outcome));
  }

  static absl::Status AddBias(const ConvolutionShape& shape, const void* bias, void* y, const StreamRef& stream) {
    Broadcast add;
    add.op = BroadcastOp::kAdd;
    add.x = add.y = {y, shape.type};
    add.e = {const_cast<void*>(bias), shape.type};
    add.rows = shape.samples * shape.out_height() * shape.out_width();
    add.columns = shape.outputs;
    // All rows share the one row of the bias.
    add.rows_per_row = add.rows;
    return Check(Launch(add, stream.native));
  }

  struct Entry {
    ConvolutionShape shape;
    ConvolutionPart part;
    bool accumulate;
    // Null if cuDNN does not support the convolution.
    std::unique_ptr<ConvolutionChoice> choice;
    std::optional<CudnnPlan> plan;
    // True after Settle, which runs the plan once if there is memory for it.
    bool settled = false;
  };

  // Returns the entry of a convolution. It searches linearly, because programs have only some tens of shapes.
  Entry& Find(const ConvolutionShape& shape, ConvolutionPart part, bool accumulate) {
    for (const auto& entry : entries_) {
      if (entry->shape == shape && entry->part == part && entry->accumulate == accumulate) return *entry;
    }
    auto choice = ChooseConvolution(session_->cudnn(), shape, part, accumulate, session_->target());
    entries_.push_back(std::make_unique<Entry>(Entry{shape, part, accumulate, nullptr, std::nullopt, false}));
    if (choice.ok()) entries_.back()->choice = *std::move(choice);
    return *entries_.back();
  }

  absl::Status Compile(Entry& entry) {
    if (entry.plan.has_value()) return absl::OkStatus();
    if (entry.choice == nullptr) return absl::InternalError("cuDNN does not support this convolution");
    auto plan = MakeCudnnPlan(std::move(entry.choice->engine), std::move(entry.choice->others), session_->target(),
                              kConvolutionWorkspaceLimit);
    if (!plan.ok()) {
      // If no engine compiles, the shape counts as unsupported from now on, and the backend's own kernels run it.
      entry.choice = nullptr;
      return plan.status();
    }
    entry.plan = *std::move(plan);
    session_->workspace().Reserve(WorkspaceBytes(entry));
    return absl::OkStatus();
  }

  // Returns the bytes of the plan's workspace. If cuDNN needs the weight in another layout, includes a copy of the
  // weight after the workspace.
  static int64_t WorkspaceBytes(const Entry& entry) {
    return Aligned(entry.plan->workspace_bytes) + (IsWeightTurned(entry.shape) ? WeightBytes(entry.shape) : 0);
  }

  absl::Status Run(const ConvolutionShape& shape, ConvolutionPart part, bool accumulate, const Data& data,
                   const StreamRef& stream) {
    Entry& entry = Find(shape, part, accumulate);
    WEFT_RETURN_IF_ERROR(Compile(entry));
    WEFT_ASSIGN_OR_RETURN(void* workspace, session_->workspace().Get(stream.number, WorkspaceBytes(entry)));
    return Enqueue(entry, data, workspace, stream);
  }

  absl::Status Enqueue(Entry& entry, const Data& data, void* workspace, const StreamRef& stream) {
    const ConvolutionShape& shape = entry.shape;
    const ConvolutionGraph& call = entry.choice->call;
    const bool turned = IsWeightTurned(shape), writes_weight = entry.part == ConvolutionPart::kWeight;
    void* const weight =
        turned ? static_cast<std::byte*>(workspace) + Aligned(entry.plan->workspace_bytes) : data.weight;
    const int64_t places = shape.kernel_size * shape.kernel_size;
    // A weight that cuDNN reads is copied into its layout. So is an old gradient that cuDNN adds to: then the sum is
    // rounded only once.
    if (turned && (!writes_weight || entry.accumulate)) {
      const SwapAxes to = {{data.weight, shape.type}, {weight, shape.type}, shape.outputs, shape.channels, places};
      WEFT_RETURN_IF_ERROR(Check(Launch(to, stream.native)));
    }
    const CudnnArgument arguments[] = {{call.x, data.x}, {call.weight, weight}, {call.y, data.y}};
    WEFT_RETURN_IF_ERROR(session_->Run(*entry.plan, arguments, workspace, stream));
    if (!turned || !writes_weight) return absl::OkStatus();
    const SwapAxes back = {{weight, shape.type}, {data.weight, shape.type}, shape.outputs, places, shape.channels};
    return Check(Launch(back, stream.native));
  }

  std::shared_ptr<CudnnSession> session_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace

std::unique_ptr<FusedConvolution> MakeCudnnConvolution(std::shared_ptr<CudnnSession> session) {
  return std::make_unique<CudnnConvolution>(std::move(session));
}

}  // namespace weft::exec::cuda
