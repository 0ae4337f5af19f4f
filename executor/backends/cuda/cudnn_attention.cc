#include "executor/backends/cuda/cudnn_attention.h"

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cudnn_attention_choice.h"
#include "executor/backends/cuda/library_bytes.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Returns the address that lies `elements` elements of two bytes after `data`.
const void* At(const void* data, int64_t elements) { return static_cast<const std::byte*>(data) + 2 * elements; }

// Where a slice begins in each tensor, in elements.
struct Offsets {
  int64_t q, k, v, o, statistics;
};

// Calls `run` for each slice of the shape; sequences are the outer loop.
absl::Status ForEachSlice(const AttentionShape& shape, const AttentionSlice& slice,
                          absl::FunctionRef<absl::Status(const Offsets&)> run) {
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t batch = 0; batch < shape.batch; batch += slice.batch) {
    for (int64_t head = 0; head < shape.kv_heads; head += slice.kv_heads) {
      const int64_t row = batch * shape.sequence, q_head = head * group;
      WEFT_RETURN_IF_ERROR(run(
          {row * shape.q.row_stride + q_head * shape.q.head_stride,
           row * shape.k.row_stride + head * shape.k.head_stride, row * shape.v.row_stride + head * shape.v.head_stride,
           row * shape.o.row_stride + q_head * shape.o.head_stride, (batch * shape.heads + q_head) * shape.sequence}));
    }
  }
  return absl::OkStatus();
}

using Arguments = absl::InlinedVector<CudnnArgument, 16>;

class CudnnAttention : public FusedAttention {
 public:
  explicit CudnnAttention(std::shared_ptr<CudnnSession> session) : session_(std::move(session)) {}

  bool Has(const AttentionShape& shape, bool backward) override {
    return backward ? FindBackward(shape).choice != nullptr : FindForward(shape).choice != nullptr;
  }

  std::string Refusal(const AttentionShape& shape, bool backward) override {
    return backward ? FindBackward(shape).refusal : FindForward(shape).refusal;
  }

  absl::Status Prepare(const AttentionShape& shape, bool backward) override {
    if (!backward) return Compile(FindForward(shape), /*more_bytes=*/0);
    Entry<AttentionBackwardChoice>& entry = FindBackward(shape);
    return Compile(entry, entry.choice == nullptr ? 0 : SumsBytes(shape, entry.choice->slice));
  }

  absl::Status Settle(IdleMemory& memory) override {
    WEFT_ASSIGN_OR_RETURN(void* const workspace, session_->workspace().Settle());
    for (const auto& entry : forward_) {
      if (!entry->plan.has_value() || std::exchange(entry->settled, true)) continue;
      const std::optional<AttentionPointers> pointers = Take(entry->shape, /*backward=*/false, memory);
      if (pointers.has_value()) WEFT_RETURN_IF_ERROR(Run(*entry, *pointers, workspace, StreamRef{}));
    }
    for (const auto& entry : backward_) {
      if (!entry->plan.has_value() || std::exchange(entry->settled, true)) continue;
      const std::optional<AttentionPointers> pointers = Take(entry->shape, /*backward=*/true, memory);
      if (pointers.has_value()) WEFT_RETURN_IF_ERROR(Run(*entry, *pointers, workspace, StreamRef{}));
    }
    return absl::OkStatus();
  }

  absl::Status Forward(const AttentionShape& shape, const AttentionPointers& p, const StreamRef& stream) override {
    Entry<AttentionForwardChoice>& entry = FindForward(shape);
    if (!entry.plan.has_value()) WEFT_RETURN_IF_ERROR(Prepare(shape, false));
    WEFT_ASSIGN_OR_RETURN(void* workspace, session_->workspace().Get(stream.number, entry.plan->workspace_bytes));
    return Run(entry, p, workspace, stream);
  }

  absl::Status Backward(const AttentionShape& shape, const AttentionPointers& p, const StreamRef& stream) override {
    Entry<AttentionBackwardChoice>& entry = FindBackward(shape);
    if (!entry.plan.has_value()) WEFT_RETURN_IF_ERROR(Prepare(shape, true));
    WEFT_ASSIGN_OR_RETURN(void* workspace,
                          session_->workspace().Get(stream.number, Aligned(entry.plan->workspace_bytes) +
                                                                       SumsBytes(shape, entry.choice->slice)));
    return Run(entry, p, workspace, stream);
  }

 private:
  template <typename Choice>
  struct Entry {
    AttentionShape shape;
    // Null if cuDNN does not support the shape; `refusal` then holds the reason.
    std::unique_ptr<Choice> choice;
    std::string refusal;
    std::optional<CudnnPlan> plan;
    // True after Settle, which runs the plan once if there is memory for it.
    bool settled = false;
    // Values of the numbers that the graph takes as inputs. Their addresses must not change.
    float scale = 1, masked = 0, window = 0, one = 1;
  };

  // Returns the entry of a shape, and makes it if there is none. The search is linear, because programs have few
  // shapes.
  template <typename Choice, typename MakeChoice>
  static Entry<Choice>& Find(std::vector<std::unique_ptr<Entry<Choice>>>& entries, const AttentionShape& shape,
                             const MakeChoice& make) {
    for (const auto& entry : entries) {
      if (entry->shape == shape) return *entry;
    }
    absl::StatusOr<std::unique_ptr<Choice>> choice = make();
    entries.push_back(std::make_unique<Entry<Choice>>());
    entries.back()->shape = shape;
    entries.back()->scale = static_cast<float>(shape.scale);
    entries.back()->window = static_cast<float>(shape.window);
    if (choice.ok()) {
      entries.back()->choice = *std::move(choice);
    } else {
      entries.back()->refusal = std::string(choice.status().message());
    }
    return *entries.back();
  }
  // Returns the limit of one call's workspace. The limit is computed for the first shape and then kept for all shapes.
  int64_t WorkspaceLimit() {
    if (workspace_limit_ == 0) {
      const auto properties = session_->device()->properties();
      workspace_limit_ = properties.ok() ? AttentionWorkspaceLimit(properties->free_bytes) : kAttentionWorkspaceLimit;
    }
    return workspace_limit_;
  }
  Entry<AttentionForwardChoice>& FindForward(const AttentionShape& shape) {
    return Find<AttentionForwardChoice>(forward_, shape, [&] {
      return ChooseAttentionForward(session_->cudnn(), shape, session_->target(), WorkspaceLimit());
    });
  }
  Entry<AttentionBackwardChoice>& FindBackward(const AttentionShape& shape) {
    return Find<AttentionBackwardChoice>(backward_, shape, [&] {
      return ChooseAttentionBackward(session_->cudnn(), shape, session_->target(), WorkspaceLimit());
    });
  }

  template <typename Choice>
  absl::Status Compile(Entry<Choice>& entry, int64_t more_bytes) {
    if (entry.plan.has_value()) return absl::OkStatus();
    if (entry.choice == nullptr) return absl::InternalError("cuDNN does not support this shape of attention");
    // Plans may need somewhat more workspace than the heuristics named.
    auto plan = MakeCudnnPlan(std::move(entry.choice->engine), std::move(entry.choice->others), session_->target(),
                              kAttentionWorkspaceLimit + kAttentionWorkspaceLimit / 8);
    if (!plan.ok()) {
      // If no engine compiles, the shape counts as unsupported from now on, and the backend's own kernels run it.
      entry.choice = nullptr;
      entry.refusal = std::string(plan.status().message());
      return plan.status();
    }
    session_->workspace().Reserve(Aligned(plan->workspace_bytes) + more_bytes);
    entry.plan = *std::move(plan);
    entry.masked = Masked();
    return absl::OkStatus();
  }

  absl::Status Run(Entry<AttentionForwardChoice>& entry, const AttentionPointers& p, void* workspace,
                   const StreamRef& stream) {
    const AttentionForwardGraph& call = entry.choice->call;
    return ForEachSlice(entry.shape, entry.choice->slice, [&](const Offsets& at) {
      Arguments arguments = {{call.q, At(p.q, at.q)},
                             {call.k, At(p.k, at.k)},
                             {call.v, At(p.v, at.v)},
                             {call.o, At(p.o, at.o)},
                             {call.lse, p.statistics + at.statistics},
                             {call.scale, &entry.scale}};
      if (call.masked != 0) arguments.push_back({call.masked, &entry.masked});
      if (call.window != 0) arguments.push_back({call.window, &entry.window});
      return session_->Run(*entry.plan, arguments, workspace, stream);
    });
  }

  absl::Status Run(Entry<AttentionBackwardChoice>& entry, const AttentionPointers& p, void* workspace,
                   const StreamRef& stream) {
    const AttentionBackwardGraph& call = entry.choice->call;
    const void* sums = static_cast<std::byte*>(workspace) + Aligned(entry.plan->workspace_bytes);
    return ForEachSlice(entry.shape, entry.choice->slice, [&](const Offsets& at) {
      Arguments arguments = {{call.q, At(p.q, at.q)},
                             {call.k, At(p.k, at.k)},
                             {call.v, At(p.v, at.v)},
                             {call.o, At(p.o, at.o)},
                             {call.lse, p.statistics + at.statistics},
                             {call.d_o, At(p.gradient_o, at.o)},
                             {call.dq, At(p.gradient_q, at.q)},
                             {call.dk, At(p.gradient_k, at.k)},
                             {call.dv, At(p.gradient_v, at.v)},
                             {call.sums, sums},
                             {call.scale, &entry.scale},
                             {call.one, &entry.one}};
      if (call.masked != 0) arguments.push_back({call.masked, &entry.masked});
      if (call.window != 0) arguments.push_back({call.window, &entry.window});
      return session_->Run(*entry.plan, arguments, workspace, stream);
    });
  }

  // Returns memory for all tensors of a shape, or nullopt if there is not enough.
  static std::optional<AttentionPointers> Take(const AttentionShape& shape, bool backward, IdleMemory& memory) {
    memory.Begin();
    const auto take = [&](int64_t heads, const HeadLayout& layout) {
      // Elements have two bytes each.
      return memory.Take(2 * ((shape.batch * shape.sequence - 1) * layout.row_stride +
                              (heads - 1) * layout.head_stride + shape.head_size));
    };
    AttentionPointers p;
    p.q = take(shape.heads, shape.q);
    p.k = take(shape.kv_heads, shape.k);
    p.v = take(shape.kv_heads, shape.v);
    p.o = take(shape.heads, shape.o);
    p.statistics = static_cast<float*>(
        memory.Take(shape.batch * shape.heads * shape.sequence * static_cast<int64_t>(sizeof(float))));
    bool all = p.q != nullptr && p.k != nullptr && p.v != nullptr && p.o != nullptr && p.statistics != nullptr;
    if (backward) {
      p.gradient_o = take(shape.heads, shape.o);
      p.gradient_q = take(shape.heads, shape.q);
      p.gradient_k = take(shape.kv_heads, shape.k);
      p.gradient_v = take(shape.kv_heads, shape.v);
      all = all && p.gradient_o != nullptr && p.gradient_q != nullptr && p.gradient_k != nullptr &&
            p.gradient_v != nullptr;
    }
    return all ? std::optional<AttentionPointers>(p) : std::nullopt;
  }

  // Returns the bytes of the sums of a slice: one float for each row and head of q.
  static int64_t SumsBytes(const AttentionShape& shape, const AttentionSlice& slice) {
    return slice.batch * shape.sequence * slice.kv_heads * (shape.heads / shape.kv_heads) *
           static_cast<int64_t>(sizeof(float));
  }

  // Returns the value of a masked score. Before 9.10, cuDNN needs a finite number.
  float Masked() const {
    return session_->cudnn()->version < 91000 ? std::numeric_limits<float>::lowest()
                                              : -std::numeric_limits<float>::infinity();
  }

  std::shared_ptr<CudnnSession> session_;
  int64_t workspace_limit_ = 0;
  std::vector<std::unique_ptr<Entry<AttentionForwardChoice>>> forward_;
  std::vector<std::unique_ptr<Entry<AttentionBackwardChoice>>> backward_;
};

}  // namespace

std::unique_ptr<FusedAttention> MakeCudnnAttention(std::shared_ptr<CudnnSession> session) {
  return std::make_unique<CudnnAttention>(std::move(session));
}

}  // namespace weft::exec::cuda
