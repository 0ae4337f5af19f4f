#include "executor/backends/cuda/cuda_runs.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "executor/backends/cuda/cuda_arguments.h"
#include "executor/backends/cuda/kernels/exact.h"
#include "executor/backends/cuda/kernels/gradient_norm.h"
#include "executor/backends/cuda/kernels/tensor_list.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

template <typename T>
absl::StatusOr<T*> ToDevice(Resources& resources, const std::vector<T>& values) {
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  WEFT_ASSIGN_OR_RETURN(void* const memory, resources.fixed_tables.Get(bytes));
  return static_cast<T*>(memory);
}

// Makes a table of the tensors on the device. `tiles_of` returns how many tiles a tensor of `elements` elements has.
template <typename T>
absl::StatusOr<TensorTable<T>> TableOf(Resources& resources, const std::vector<T>& tensors,
                                       int64_t (*tiles_of)(int64_t elements) = TilesOf) {
  TensorTable<T> table;
  std::vector<int64_t> ends;
  for (const T& tensor : tensors) ends.push_back(table.tiles += tiles_of(tensor.elements));
  table.count = static_cast<int64_t>(tensors.size());
  WEFT_ASSIGN_OR_RETURN(table.tensors, ToDevice(resources, tensors));
  WEFT_ASSIGN_OR_RETURN(table.ends, ToDevice(resources, ends));
  return table;
}

template <typename Args>
class LaunchRun : public StepRun {
 public:
  using SetStepFunction = void (*)(const StepContext& context, const StepAttributes& attributes, Args& args);

  // `set_step` sets the arguments that change from one optimizer step to the next; null if nothing changes.
  LaunchRun(Resources& resources, absl::Span<const StepOfRun> steps, const Args& args, SetStepFunction set_step)
      : resources_(resources), first_(*steps[0].step), count_(steps.size()), args_(args), set_step_(set_step) {
    // Load the kernel's code onto the device now. An error is ignored here: it is reported when the kernel runs.
    LaunchArgs(args_, LoadOnly());
  }

  absl::Status Run(const StepContext& context) override {
    if (set_step_ != nullptr) set_step_(context, first_.attributes(), args_);
    const Outcome outcome = LaunchArgs(args_, resources_.device->NativeStream(context.stream));
    if (outcome == nullptr) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("step '", first_.name(), "' and ", count_ - 1, " after it, kernel ",
                                            Kernel_Name(first_.kernel()), ": ", outcome));
  }
  Args& args() { return args_; }

 private:
  Resources& resources_;
  const Step& first_;
  const size_t count_;
  Args args_;
  SetStepFunction set_step_;
};

ColumnSums& SumsOf(ColumnSums& args) { return args; }
ColumnSums& SumsOf(NormBackwardSums& args) { return args.sums; }

// A launch with sums over rows, whose partial sums are in the stream's scratch. The scratch is large enough because the
// steps need as much when they run one by one.
template <typename Args>
class RunWithSums : public StepRun {
 public:
  RunWithSums(Resources& resources, absl::Span<const StepOfRun> steps, const Args& args)
      : resources_(resources), run_(resources, steps, args, nullptr) {}

  absl::Status Run(const StepContext& context) override {
    ColumnSums& sums = SumsOf(run_.args());
    WEFT_ASSIGN_OR_RETURN(sums.scratch, resources_.scratch.Get(context.stream, sums.ScratchBytes()));
    return run_.Run(context);
  }

 private:
  Resources& resources_;
  LaunchRun<Args> run_;
};

template <typename Args>
std::unique_ptr<StepRun> MakeRun(Resources& resources, absl::Span<const StepOfRun> steps, const Args& args,
                                 typename LaunchRun<Args>::SetStepFunction set_step = nullptr) {
  return std::make_unique<LaunchRun<Args>>(resources, steps, args, set_step);
}

bool SameScaling(const LossScaling& a, const LossScaling& b) { return a.norm == b.norm && a.scale == b.scale; }

bool SameType(const Array& a, const Array& b) { return a.type == b.type && (a.data == nullptr) == (b.data == nullptr); }
bool SameTypes(const TensorUpdate& a, const TensorUpdate& b) {
  bool same = SameType(a.gradient, b.gradient) && SameType(a.param, b.param);
  for (int i = 0; i < 3; ++i) same = same && SameType(a.from[i], b.from[i]) && SameType(a.to[i], b.to[i]);
  return same;
}

bool AreAlike(const AdamWUpdate& a, const AdamWUpdate& b) {
  return SameTypes(a, b) && SameScaling(a.scaling, b.scaling) && a.rounding.given == b.rounding.given &&
         a.beta1 == b.beta1 && a.beta2 == b.beta2 && a.epsilon == b.epsilon;
}
bool AreAlike(const SgdUpdate& a, const SgdUpdate& b) {
  return SameTypes(a, b) && SameScaling(a.scaling, b.scaling) && a.rounding.given == b.rounding.given &&
         a.momentum == b.momentum;
}

Call CallOf(Resources& resources, const StepOfRun& step, const StepContext& context) {
  return {*step.step, step.inputs, step.outputs, context, resources};
}

// Calls f with each step as a Call.
void ForCalls(Resources& resources, absl::Span<const StepOfRun> steps, absl::FunctionRef<void(const Call& call)> f) {
  for (const StepOfRun& step : steps) {
    StepContext context;
    context.first_element = step.first_element;
    context.writes_norm = step.writes_norm;
    f(CallOf(resources, step, context));
  }
}

template <typename Args>
absl::StatusOr<std::unique_ptr<StepRun>> UpdatesRun(Resources& resources, absl::Span<const StepOfRun> steps,
                                                    Args (*arguments)(const Call& call)) {
  std::vector<TensorUpdate> tensors;
  std::optional<Args> first;
  bool alike = true;
  ForCalls(resources, steps, [&](const Call& call) {
    const Args args = arguments(call);
    if (!first) first = args;
    alike = alike && AreAlike(args, *first);
    tensors.push_back(args);
  });
  if (!alike) return std::unique_ptr<StepRun>();
  WEFT_ASSIGN_OR_RETURN(first->table, TableOf(resources, tensors));
  return MakeRun<Args>(resources, steps, *first, &SetStep);
}

absl::StatusOr<std::unique_ptr<StepRun>> NormsRun(Resources& resources, absl::Span<const StepOfRun> steps) {
  std::vector<SquaredTensor> tensors;
  SumsOfSquares args;
  args.exact = steps[0].outputs[0].dtype == EXACT192;
  bool alike = true;
  ForCalls(resources, steps, [&](const Call& call) {
    const SumOfSquares one = NormArguments(call);
    alike = alike && (one.exact_norm != nullptr) == args.exact;
    void* const norm = args.exact ? static_cast<void*>(one.exact_norm) : one.norm;
    if (tensors.empty()) args.type = one.x.type;
    if (args.type != one.x.type) args.type = Type::kNone;
    tensors.push_back({one.x, one.elements, norm});
  });
  if (!alike) return std::unique_ptr<StepRun>();
  WEFT_ASSIGN_OR_RETURN(args.table, TableOf(resources, tensors, &NormPiecesOf));
  // The run allocates scratch for itself, because the stream's scratch is only large enough for one step.
  const int64_t bytes = args.table.tiles * static_cast<int64_t>(args.exact ? sizeof(Exact192) : sizeof(double));
  WEFT_ASSIGN_OR_RETURN(args.scratch, resources.device->Allocate(DEVICE, bytes));
  return MakeRun(resources, steps, args);
}

absl::StatusOr<std::unique_ptr<StepRun>> ListRun(Resources& resources, absl::Span<const StepOfRun> steps) {
  std::vector<ListedTensor> tensors;
  TensorList args;
  const Kernel kernel = steps[0].step->kernel();
  const bool copies = kernel == CAST && steps[0].inputs[0].dtype == steps[0].outputs[0].dtype;
  args.op = copies ? ListOp::kCopy : kernel == CAST ? ListOp::kCast : kernel == SCALE ? ListOp::kScale : ListOp::kFill;
  args.value = steps[0].step->attributes().value();
  bool alike = true;
  ForCalls(resources, steps, [&](const Call& call) {
    if (call.out[0].dtype == EXACT192) {  // A FILL of EXACT192 cannot be in one run with FILLs of floats.
      alike = false;
      return;
    }
    const double* scale = kernel == SCALE ? static_cast<const double*>(call.in[0].data) + 1 : nullptr;
    const bool in_double = kernel == FILL || ComputesInDouble(call.in.subspan(kernel == SCALE ? 1 : 0));
    if (tensors.empty()) {
      args.scale = scale;
      args.in_double = in_double;
      args.type = TypeOf(call.out[0]);
    }
    if (TypeOf(call.out[0]) != args.type || (kernel != FILL && TypeOf(call.in.back()) != args.type)) {
      args.type = Type::kNone;
    }
    alike = alike && scale == args.scale && in_double == args.in_double && call.attributes().value() == args.value &&
            (kernel != CAST || (call.in[0].dtype == call.out[0].dtype) == copies) &&
            (!copies || args.type != Type::kNone);
    tensors.push_back(
        {Elements(call.out[0]), kernel != FILL ? ArrayOf(call.in.back()) : Array(), ArrayOf(call.out[0])});
  });
  if (!alike) return std::unique_ptr<StepRun>();
  WEFT_ASSIGN_OR_RETURN(args.table, TableOf(resources, tensors));
  return MakeRun(resources, steps, args);
}

absl::StatusOr<std::unique_ptr<StepRun>> ExactRun(Resources& resources, absl::Span<const StepOfRun> steps) {
  std::vector<ExactTensor> tensors;
  ExactTensors args;
  const double value = steps[0].step->attributes().value();
  bool alike = true;
  ForCalls(resources, steps, [&](const Call& call) {
    if (call.step.kernel() == FILL && call.out[0].dtype != EXACT192) {
      alike = false;
      return;
    }
    const ExactCall one = ExactArguments(call);
    if (tensors.empty()) {
      args.op = one.op;
      args.value = one.value;
    }
    alike = alike && one.op == args.op && call.attributes().value() == value;
    tensors.push_back(one.tensor);
  });
  if (!alike) return std::unique_ptr<StepRun>();
  WEFT_ASSIGN_OR_RETURN(args.table, TableOf(resources, tensors, &ExactTilesOf));
  return MakeRun(resources, steps, args);
}

// True if `sum` is an ADD that does not accumulate, whose result has `elements` elements and is not EXACT192, and that
// computes in the same type as `norm`.
bool IsSumFor(const StepOfRun& sum, const StepOfRun& norm, int64_t elements) {
  return sum.step->kernel() == ADD && !sum.step->accumulate() && sum.outputs[0].dtype != EXACT192 &&
         Elements(sum.outputs[0]) == elements && ComputesInDouble(sum.inputs) == ComputesInDouble(norm.inputs);
}

// Returns one launch for an ADD and the norm of its sum; null if the steps are something else.
absl::StatusOr<std::unique_ptr<StepRun>> NormOfSumRun(Resources& resources, absl::Span<const StepOfRun> steps) {
  const StepOfRun &sum = steps[0], &norm = steps[1];
  const Kernel kernel = norm.step->kernel();
  if (steps.size() != 2 || (kernel != LAYER_NORM && kernel != RMS_NORM)) return std::unique_ptr<StepRun>();
  Norm args = RowNormArguments(CallOf(resources, norm, {}));
  if (args.x.data == nullptr || !IsSumFor(sum, norm, args.rows * args.columns) || sum.outputs[0].data != args.x.data ||
      TypeOf(sum.outputs[0]) != args.x.type) {
    return std::unique_ptr<StepRun>();
  }
  args.a = ArrayOf(sum.inputs[0]);
  args.b = ArrayOf(sum.inputs[1]);
  return MakeRun(resources, steps, args);
}

// True if `bias` is the BIAS_GRADIENT of the tensor `made`, which the launch writes, and computes in the same type as
// the launch.
bool IsBiasOf(const StepOfRun& bias, const TensorView& made, bool in_double) {
  return bias.step->kernel() == BIAS_GRADIENT && bias.inputs[0].data == made.data &&
         bias.inputs[0].dtype == made.dtype && ComputesInDouble(bias.inputs) == in_double;
}

// Returns one launch for the backward of a norm and the ADD of its result; null if the steps are something else. The
// order of the steps is: the backward of the norm, optionally the gradients of its weights, then the ADD. A launch with
// the gradients of the weights may also end with the BIAS_GRADIENT of the sum.
absl::StatusOr<std::unique_ptr<StepRun>> SumOfGradientRun(Resources& resources, absl::Span<const StepOfRun> steps) {
  const bool weights = steps.size() > 2;
  const StepOfRun &norm = steps[0], &sum = steps[weights ? 2 : 1];
  if (steps.size() > 4 || norm.step->accumulate()) return std::unique_ptr<StepRun>();
  NormBackward args = RowNormBackwardArguments(CallOf(resources, norm, {}));
  if (args.dx.data == nullptr || !IsSumFor(sum, norm, args.rows * args.columns)) return std::unique_ptr<StepRun>();
  const int link = sum.inputs[0].data == args.dx.data ? 0 : 1;
  const TensorView &dx = sum.inputs[link], &residual = sum.inputs[1 - link];
  if (dx.data != args.dx.data || TypeOf(dx) != args.dx.type || residual.data == args.dx.data) {
    return std::unique_ptr<StepRun>();
  }
  args.residual = ArrayOf(residual);
  args.sum = ArrayOf(sum.outputs[0]);
  if (!weights) return MakeRun(resources, steps, args);
  const StepOfRun& of_weights = steps[1];
  const Kernel kernel = of_weights.step->kernel();
  if ((kernel != LAYER_NORM_BACKWARD_WEIGHT && kernel != RMS_NORM_BACKWARD_WEIGHT) || !HasSums(args)) {
    return std::unique_ptr<StepRun>();
  }
  NormBackwardSums with = {args, {}};
  with.sums = NormWeightArguments(CallOf(resources, of_weights, {}));
  const ColumnSums& sums = with.sums;
  if (sums.in_double || sums.dy.data != args.dy.data || sums.x.data != args.x.data ||
      sums.mean.data != args.mean.data || sums.rstd.data != args.rstd.data || sums.rows != args.rows ||
      sums.columns != args.columns) {
    return std::unique_ptr<StepRun>();
  }
  if (steps.size() == 4) {
    const StepOfRun& of_bias = steps[3];
    if (!IsBiasOf(of_bias, sum.outputs[0], /*in_double=*/false)) return std::unique_ptr<StepRun>();
    const ColumnSums bias = BiasGradientArguments(CallOf(resources, of_bias, {}));
    if (bias.rows != args.rows || bias.columns != args.columns) return std::unique_ptr<StepRun>();
    with.sums.beside = bias.plain;
    with.sums.accumulate_beside = bias.accumulate;
  }
  return std::make_unique<RunWithSums<NormBackwardSums>>(resources, steps, with);
}

// Returns one launch for GELU_BACKWARD and the gradient of the bias that was added before the GELU. Returns null if the
// steps are something else.
absl::StatusOr<std::unique_ptr<StepRun>> ActivationWithBiasRun(Resources& resources,
                                                               absl::Span<const StepOfRun> steps) {
  const StepOfRun &gelu = steps[0], &of_bias = steps[1];
  if (steps.size() != 2) return std::unique_ptr<StepRun>();
  const bool in_double = ComputesInDouble(gelu.inputs);
  const TensorView& made = gelu.outputs[0];
  if (!IsBiasOf(of_bias, made, in_double)) return std::unique_ptr<StepRun>();
  ColumnSums sums = BiasGradientArguments(CallOf(resources, of_bias, {}));
  if (Elements(made) != sums.rows * sums.columns) return std::unique_ptr<StepRun>();
  sums.dy = ArrayOf(gelu.inputs[0]);
  sums.x = ArrayOf(gelu.inputs[1]);
  sums.made = ArrayOf(made);
  sums.make =
      gelu.step->attributes().tanh_approximation() ? ElementwiseOp::kGeluTanhBackward : ElementwiseOp::kGeluBackward;
  return std::make_unique<RunWithSums<ColumnSums>>(resources, steps, sums);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun(Resources& resources, absl::Span<const StepOfRun> steps) {
  if (steps.size() < 2) return std::unique_ptr<StepRun>();
  switch (steps[0].step->kernel()) {
    case ADD:
      return NormOfSumRun(resources, steps);
    case LAYER_NORM_BACKWARD:
    case RMS_NORM_BACKWARD:
      return SumOfGradientRun(resources, steps);
    case GELU_BACKWARD:
      return ActivationWithBiasRun(resources, steps);
    case EXACT_ACCUMULATE:
    case EXACT_ROUND:
      return ExactRun(resources, steps);
    case ADAMW:
      return UpdatesRun<AdamWUpdate>(resources, steps, &AdamWArguments);
    case SGD_STEP:
      return UpdatesRun<SgdUpdate>(resources, steps, &SgdArguments);
    case SQUARED_NORM:
      return NormsRun(resources, steps);
    case FILL:
      if (steps[0].outputs[0].dtype == EXACT192) return ExactRun(resources, steps);
      [[fallthrough]];
    case CAST:
    case SCALE:
      return ListRun(resources, steps);
    default:
      return std::unique_ptr<StepRun>();
  }
}

}  // namespace weft::exec::cuda
