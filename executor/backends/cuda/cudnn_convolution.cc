#include "executor/backends/cuda/cudnn_convolution.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cudnn_convolution_choice.h"
#include "executor/backends/cuda/kernels/broadcast.h"
#include "proto/status.h"

namespace weft::cuda {
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

  absl::Status Forward(const ConvolutionShape& shape, const void* x, const void* weight, const void* bias, void* y,
                       const StreamRef& stream) override {
    WEFT_RETURN_IF_ERROR(Run(shape, ConvolutionPart::kForward, false, x, weight, y, stream));
    if (bias == nullptr) return absl::OkStatus();
    Broadcast add;
    add.op = BroadcastOp::kAdd;
    add.x = add.y = {y, shape.type};
    add.e = {const_cast<void*>(bias), shape.type};
    add.rows = shape.samples * shape.out_height() * shape.out_width();
    add.columns = shape.outputs;
    // All rows go with the one row of the bias.
    add.rows_per_row = add.rows;
    const Outcome outcome = Launch(add, stream.native);
    return outcome == nullptr ? absl::OkStatus() : absl::InternalError(absl::StrCat("launching a kernel: ", outcome));
  }

  absl::Status Input(const ConvolutionShape& shape, const void* dy, const void* weight, bool accumulate, void* dx,
                     const StreamRef& stream) override {
    return Run(shape, ConvolutionPart::kInput, accumulate, dx, weight, dy, stream);
  }

  absl::Status Weight(const ConvolutionShape& shape, const void* dy, const void* x, bool accumulate, void* dweight,
                      const StreamRef& stream) override {
    return Run(shape, ConvolutionPart::kWeight, accumulate, x, dweight, dy, stream);
  }

 private:
  struct Entry {
    ConvolutionShape shape;
    ConvolutionPart part;
    bool accumulate;
    // Null: cuDNN does not do it.
    std::unique_ptr<ConvolutionChoice> choice;
    std::optional<CudnnPlan> plan;
  };

  // Programs have some tens of shapes, asked one after the other.
  Entry& Find(const ConvolutionShape& shape, ConvolutionPart part, bool accumulate) {
    for (const auto& entry : entries_) {
      if (entry->shape == shape && entry->part == part && entry->accumulate == accumulate) return *entry;
    }
    auto choice = ChooseConvolution(session_->cudnn(), shape, part, accumulate, session_->target());
    entries_.push_back(std::make_unique<Entry>(Entry{shape, part, accumulate, nullptr, std::nullopt}));
    if (choice.ok()) entries_.back()->choice = *std::move(choice);
    return *entries_.back();
  }

  absl::Status Compile(Entry& entry) {
    if (entry.plan.has_value()) return absl::OkStatus();
    if (entry.choice == nullptr) return absl::InternalError("a convolution that cuDNN does not have");
    auto plan = MakeCudnnPlan(std::move(entry.choice->engine), std::move(entry.choice->others), session_->target());
    if (!plan.ok()) {
      // From now on it is said not to have it: kernels of our own take the place of none that compiles.
      entry.choice = nullptr;
      return plan.status();
    }
    WEFT_RETURN_IF_ERROR(session_->workspace().Reserve(plan->workspace_bytes));
    entry.plan = *std::move(plan);
    return absl::OkStatus();
  }

  absl::Status Run(const ConvolutionShape& shape, ConvolutionPart part, bool accumulate, const void* x,
                   const void* weight, const void* y, const StreamRef& stream) {
    Entry& entry = Find(shape, part, accumulate);
    WEFT_RETURN_IF_ERROR(Compile(entry));
    const ConvolutionGraph& call = entry.choice->call;
    WEFT_ASSIGN_OR_RETURN(void* workspace, session_->workspace().Get(stream.number, entry.plan->workspace_bytes));
    const CudnnArgument arguments[] = {{call.x, x}, {call.weight, weight}, {call.y, y}};
    return session_->Run(*entry.plan, arguments, workspace, stream);
  }

  std::shared_ptr<CudnnSession> session_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace

std::unique_ptr<FusedConvolution> MakeCudnnConvolution(std::shared_ptr<CudnnSession> session) {
  return std::make_unique<CudnnConvolution>(std::move(session));
}

}  // namespace weft::cuda
