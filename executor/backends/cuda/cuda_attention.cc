// ATTENTION and ATTENTION_BACKWARD: run by cuDNN if it supports them, else by the backend's own kernels.

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/cuda_dropout.h"
#include "executor/backends/cuda/cuda_heads.h"
#include "executor/backends/cuda/kernels/flash_attention.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// `views` holds one tensor qkv, or three tensors q, k and v.
AttentionProblem ProblemOf(const Call& call, absl::Span<const TensorView> views, const TensorView& o,
                           const TensorView& lse) {
  const StepAttributes& a = call.attributes();
  const bool grouped = views.size() == 3;
  AttentionProblem problem;
  HeadShape& shape = problem.shape;
  shape.sequence = a.sequence();
  shape.sequences = Rows(views[0]) / shape.sequence;
  shape.heads = a.heads();
  shape.kv_heads = grouped ? a.kv_heads() : a.heads();
  shape.width = Columns(views[0]) / (grouped ? 1 : 3) / shape.heads;
  problem.in_double = ComputesInDouble(call.in);
  problem.causal = a.causal();
  problem.window = a.window();
  problem.scale = a.scale();
  HeadPart* const parts[] = {&problem.q, &problem.k, &problem.v};
  for (int i = 0; i < 3; ++i) {
    *parts[i] = grouped ? PartOf(views[i], shape.width) : PartOfQkv(call, views[0], i);
  }
  problem.o = PartOf(o, shape.width);
  problem.lse = ArrayOf(lse);
  problem.dropout = DropoutKeyOf(call);
  problem.samples = SamplesOf(call.context);
  problem.first_head = call.context.column_shift;
  return problem;
}

HeadLayout LayoutOf(const HeadPart& part) { return {part.stride, part.head_step}; }

const void* Data(const HeadPart& part) {
  return static_cast<const char*>(part.array.data) + part.first_column * ElementBytes(part.array.type);
}

// Notes that the backend's own kernels run this attention, although users expect cuDNN's faster ones. `why` describes
// the attention, and `refusal` is cuDNN's reason.
void NoteSlow(const Call& call, const AttentionProblem& problem, bool tensor_cores, absl::string_view why,
              absl::string_view refusal = "") {
  const Type type = problem.q.array.type;
  if (!call.measuring || (type != Type::kBf16 && type != Type::kFp16)) return;
  const HeadShape& shape = problem.shape;
  call.resources.notes.insert(absl::StrCat("attention ", why, " (", shape.heads, " heads of ", shape.width,
                                           ", sequences of ", shape.sequence, ") runs on weft's own kernels, which ",
                                           tensor_cores ? "use tensor cores but are slower than cuDNN's"
                                                        : "use no tensor cores and are many times slower than cuDNN's",
                                           refusal.empty() ? "" : absl::StrCat("; ", std::string(refusal))));
}

// Returns the library if it supports this attention, else null. Announces the shape while the program is measured.
// `tensor_cores` is true if the backend's own kernels would use tensor cores.
absl::StatusOr<FusedAttention*> LibraryFor(const Call& call, const AttentionProblem& problem, bool backward,
                                           bool tensor_cores, AttentionShape& described) {
  FusedAttention* library = call.resources.libraries.attention.get();
  // With dropout the library cannot be used: its random numbers differ from weft's.
  if (library == nullptr || problem.shape.sequences == 0) return nullptr;
  if (problem.dropout.threshold != 0) {
    NoteSlow(call, problem, tensor_cores, "with dropout");
    return nullptr;
  }
  if (problem.lse.type != Type::kFp32) return nullptr;
  const Type type = problem.q.array.type;
  for (const HeadPart* part : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (part->array.type != type) return nullptr;
  }
  // Every gradient must have the type of q, k and v.
  if (backward && TypeOf(call.in[0]) != type) return nullptr;
  for (const TensorView& view : call.out.subspan(0, backward ? call.out.size() : 1)) {
    if (TypeOf(view) != type) return nullptr;
  }
  described.type = type;
  described.batch = problem.shape.sequences;
  described.heads = problem.shape.heads;
  described.kv_heads = problem.shape.kv_heads;
  described.sequence = problem.shape.sequence;
  described.head_size = problem.shape.width;
  described.q = LayoutOf(problem.q);
  described.k = LayoutOf(problem.k);
  described.v = LayoutOf(problem.v);
  described.o = LayoutOf(problem.o);
  described.causal = problem.causal;
  described.window = problem.window;
  described.scale = problem.scale;
  if (!library->Has(described, backward)) {
    NoteSlow(call, problem, tensor_cores, "that cuDNN does not support", library->Refusal(described, backward));
    return nullptr;
  }
  if (call.measuring) {
    const absl::Status prepared = library->Prepare(described, backward);
    if (absl::IsResourceExhausted(prepared)) return prepared;
    // The library proposed a plan that does not compile.
    if (!prepared.ok()) {
      NoteSlow(call, problem, tensor_cores, "that cuDNN does not support", prepared.message());
      return nullptr;
    }
  }
  return library;
}

AttentionPointers PointersOf(const AttentionProblem& problem) {
  AttentionPointers pointers;
  pointers.q = Data(problem.q);
  pointers.k = Data(problem.k);
  pointers.v = Data(problem.v);
  pointers.o = problem.o.array.data;
  pointers.statistics = static_cast<float*>(problem.lse.data);
  return pointers;
}

}  // namespace

absl::Status Attention(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckDropout(call.step, call.in[0], call.context));
  const AttentionProblem problem = ProblemOf(call, call.in, call.out[0], call.out[1]);
  AttentionShape shape;
  const AttentionForward own = {problem};
  WEFT_ASSIGN_OR_RETURN(FusedAttention* const library, LibraryFor(call, problem, false, OnTensorCores(own), shape));
  if (library == nullptr) return call.Launch(own);
  if (call.measuring) return absl::OkStatus();
  return library->Forward(shape, PointersOf(problem), call.stream());
}

absl::Status AttentionBackward(const Call& call) {
  const size_t parts = call.in.size() == 6 ? 3 : 1;
  const absl::Span<const TensorView> views = call.in.subspan(1, parts);
  WEFT_RETURN_IF_ERROR(CheckDropout(call.step, call.in[0], call.context));
  AttentionGradient args;
  args.problem = ProblemOf(call, views, call.in[parts + 1], call.in[parts + 2]);
  args.d_o = PartOf(call.in[0], args.problem.shape.width);
  HeadPart* const gradients[] = {&args.dq, &args.dk, &args.dv};
  for (int i = 0; i < 3; ++i) {
    *gradients[i] = parts == 3 ? PartOf(call.out[i], args.problem.shape.width) : PartOfQkv(call, call.out[0], i);
  }
  AttentionShape shape;
  WEFT_ASSIGN_OR_RETURN(FusedAttention* const library,
                        LibraryFor(call, args.problem, true, OnTensorCores(args), shape));
  if (library == nullptr) return call.Launch(args);
  if (call.measuring) return absl::OkStatus();
  AttentionPointers pointers = PointersOf(args.problem);
  pointers.gradient_o = args.d_o.array.data;
  pointers.gradient_q = const_cast<void*>(Data(args.dq));
  pointers.gradient_k = const_cast<void*>(Data(args.dk));
  pointers.gradient_v = const_cast<void*>(Data(args.dv));
  return library->Backward(shape, pointers, call.stream());
}

}  // namespace weft::exec::cuda
