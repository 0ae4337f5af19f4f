#include "executor/backends/cuda/cudnn_attention.h"

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cudnn_attention_choice.h"
#include "proto/status.h"

namespace weft::cuda {
namespace {

constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Bytes `elements` further, for elements of two bytes.
const void* At(const void* data, int64_t elements) { return static_cast<const std::byte*>(data) + 2 * elements; }

// Where a slice begins in each matrix, in elements.
struct Offsets {
  int64_t q, k, v, o, statistics;
};

// Calls `run` for each slice of the shape: sequences outermost.
absl::Status ForEachSlice(const AttentionShape& shape, const AttentionSlice& slice,
                          absl::FunctionRef<absl::Status(const Offsets&)> run) {
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t batch = 0; batch < shape.batch; batch += slice.batch) {
    for (int64_t head = 0; head < shape.kv_heads; head += slice.kv_heads) {
      const int64_t row = batch * shape.sequence, q_head = head * group;
      WEFT_RETURN_IF_ERROR(run({row * shape.q.row_stride + q_head * shape.q.head_stride,
                                row * shape.k.row_stride + head * shape.k.head_stride,
                                row * shape.v.row_stride + head * shape.v.head_stride,
                                row * shape.o.row_stride + q_head * shape.o.head_stride, row * shape.heads + q_head}));
    }
  }
  return absl::OkStatus();
}

class CudnnAttention : public FusedAttention {
 public:
  explicit CudnnAttention(std::shared_ptr<CudnnSession> session) : session_(std::move(session)) {}

  bool Has(const AttentionShape& shape, bool backward) override {
    return backward ? FindBackward(shape).choice != nullptr : FindForward(shape).choice != nullptr;
  }

  absl::Status Prepare(const AttentionShape& shape, bool backward) override {
    if (!backward) return Compile(FindForward(shape), /*more_bytes=*/0);
    Entry<AttentionBackwardChoice>& entry = FindBackward(shape);
    return Compile(entry, entry.choice == nullptr ? 0 : SumsBytes(shape, entry.choice->slice));
  }

  absl::Status Forward(const AttentionShape& shape, const AttentionPointers& p, const StreamRef& stream) override {
    Entry<AttentionForwardChoice>& entry = FindForward(shape);
    if (!entry.plan.has_value()) WEFT_RETURN_IF_ERROR(Prepare(shape, false));
    const AttentionForwardGraph& call = entry.choice->call;
    const float scale = static_cast<float>(shape.scale), masked = Masked();
    WEFT_ASSIGN_OR_RETURN(void* workspace, session_->workspace().Get(stream.number, entry.plan->workspace_bytes));
    return ForEachSlice(shape, entry.choice->slice, [&](const Offsets& at) {
      std::vector<CudnnArgument> arguments = {{call.q, At(p.q, at.q)},
                                              {call.k, At(p.k, at.k)},
                                              {call.v, At(p.v, at.v)},
                                              {call.o, At(p.o, at.o)},
                                              {call.lse, p.statistics + at.statistics},
                                              {call.scale, &scale}};
      if (shape.causal) arguments.push_back({call.masked, &masked});
      return session_->Run(*entry.plan, arguments, workspace, stream);
    });
  }

  absl::Status Backward(const AttentionShape& shape, const AttentionPointers& p, const StreamRef& stream) override {
    Entry<AttentionBackwardChoice>& entry = FindBackward(shape);
    if (!entry.plan.has_value()) WEFT_RETURN_IF_ERROR(Prepare(shape, true));
    const AttentionBackwardGraph& call = entry.choice->call;
    const float scale = static_cast<float>(shape.scale), masked = Masked(), one = 1;
    const int64_t plan_bytes = Aligned(entry.plan->workspace_bytes);
    WEFT_ASSIGN_OR_RETURN(void* workspace,
                          session_->workspace().Get(stream.number, plan_bytes + SumsBytes(shape, entry.choice->slice)));
    const void* sums = static_cast<std::byte*>(workspace) + plan_bytes;
    return ForEachSlice(shape, entry.choice->slice, [&](const Offsets& at) {
      std::vector<CudnnArgument> arguments = {{call.q, At(p.q, at.q)},
                                              {call.k, At(p.k, at.k)},
                                              {call.v, At(p.v, at.v)},
                                              {call.o, At(p.o, at.o)},
                                              {call.lse, p.statistics + at.statistics},
                                              {call.d_o, At(p.gradient_o, at.o)},
                                              {call.dq, At(p.gradient_q, at.q)},
                                              {call.dk, At(p.gradient_k, at.k)},
                                              {call.dv, At(p.gradient_v, at.v)},
                                              {call.sums, sums},
                                              {call.scale, &scale},
                                              {call.one, &one}};
      if (shape.causal) arguments.push_back({call.masked, &masked});
      return session_->Run(*entry.plan, arguments, workspace, stream);
    });
  }

 private:
  template <typename Choice>
  struct Entry {
    AttentionShape shape;
    // Null: cuDNN does not do it.
    std::unique_ptr<Choice> choice;
    std::optional<CudnnPlan> plan;
  };

  // Programs have few shapes: a handful of entries, asked one after the other.
  template <typename Choice, typename MakeChoice>
  static Entry<Choice>& Find(std::vector<std::unique_ptr<Entry<Choice>>>& entries, const AttentionShape& shape,
                             const MakeChoice& make) {
    for (const auto& entry : entries) {
      if (entry->shape == shape) return *entry;
    }
    absl::StatusOr<std::unique_ptr<Choice>> choice = make();
    entries.push_back(std::make_unique<Entry<Choice>>());
    entries.back()->shape = shape;
    if (choice.ok()) entries.back()->choice = *std::move(choice);
    return *entries.back();
  }
  Entry<AttentionForwardChoice>& FindForward(const AttentionShape& shape) {
    return Find<AttentionForwardChoice>(
        forward_, shape, [&] { return ChooseAttentionForward(session_->cudnn(), shape, session_->target()); });
  }
  Entry<AttentionBackwardChoice>& FindBackward(const AttentionShape& shape) {
    return Find<AttentionBackwardChoice>(
        backward_, shape, [&] { return ChooseAttentionBackward(session_->cudnn(), shape, session_->target()); });
  }

  template <typename Choice>
  absl::Status Compile(Entry<Choice>& entry, int64_t more_bytes) {
    if (entry.plan.has_value()) return absl::OkStatus();
    if (entry.choice == nullptr) return absl::InternalError("a shape of attention that cuDNN does not have");
    auto plan = MakeCudnnPlan(std::move(entry.choice->engine), std::move(entry.choice->others), session_->target());
    if (!plan.ok()) {
      // From now on it is said not to have it: kernels of our own take the place of none that compiles.
      entry.choice = nullptr;
      return plan.status();
    }
    WEFT_RETURN_IF_ERROR(session_->workspace().Reserve(Aligned(plan->workspace_bytes) + more_bytes));
    entry.plan = *std::move(plan);
    return absl::OkStatus();
  }

  // A float for each row and head of q.
  static int64_t SumsBytes(const AttentionShape& shape, const AttentionSlice& slice) {
    return slice.batch * shape.sequence * slice.kv_heads * (shape.heads / shape.kv_heads) *
           static_cast<int64_t>(sizeof(float));
  }

  // What a masked score becomes: before 9.10 cuDNN wants a number.
  float Masked() const {
    return session_->cudnn()->version < 91000 ? std::numeric_limits<float>::lowest()
                                              : -std::numeric_limits<float>::infinity();
  }

  std::shared_ptr<CudnnSession> session_;
  std::vector<std::unique_ptr<Entry<AttentionForwardChoice>>> forward_;
  std::vector<std::unique_ptr<Entry<AttentionBackwardChoice>>> backward_;
};

}  // namespace

std::unique_ptr<FusedAttention> MakeCudnnAttention(std::shared_ptr<CudnnSession> session) {
  return std::make_unique<CudnnAttention>(std::move(session));
}

}  // namespace weft::cuda
