// EXACT_ACCUMULATE, EXACT_ROUND, and ADD and FILL of EXACT192: gradient sums that have the same value in any order.
#include "executor/backends/cuda/cuda_exact.h"

#include "executor/backends/cuda/kernels/sum_parts.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

absl::Status CheckAccumulator(const Call& call, const TensorView& view, int64_t elements, const char* what) {
  if (view.dtype == EXACT192 && Elements(view) == elements) return absl::OkStatus();
  return call.Error(what, " is ", Elements(view), " elements of ", DType_Name(view.dtype), "; it must be ", elements,
                    " of EXACT192");
}

}  // namespace

absl::StatusOr<ExactCall> ExactArguments(const Call& call) {
  ExactCall result;
  switch (call.step.kernel()) {
    case EXACT_ACCUMULATE:
      WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b1));
      WEFT_RETURN_IF_ERROR(CheckAccumulator(call, call.out[0], Elements(call.in[0]), "output 0"));
      result.op = ExactOp::kAccumulate;
      result.tensor = {Elements(call.in[0]), static_cast<Exact192*>(call.out[0].data), ArrayOf(call.in[0])};
      return result;
    case EXACT_ROUND:
      WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b10));
      WEFT_RETURN_IF_ERROR(CheckAccumulator(call, call.in[0], Elements(call.out[0]), "input 0"));
      result.op = ExactOp::kRound;
      result.tensor = {Elements(call.out[0]), static_cast<Exact192*>(call.in[0].data), ArrayOf(call.out[0])};
      return result;
    default:
      WEFT_RETURN_IF_ERROR(CheckTensors(call, 0, 1, 0));
      WEFT_RETURN_IF_ERROR(CheckAccumulator(call, call.out[0], Elements(call.out[0]), "output 0"));
      exact192::AddNumber(result.value, call.attributes().value());
      result.tensor = {Elements(call.out[0]), static_cast<Exact192*>(call.out[0].data), {}};
      return result;
  }
}

absl::Status ExactAccumulateTensor(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(const ExactCall one, ExactArguments(call));
  return call.Launch(ExactTerms{one.tensor.x, one.tensor.elements, false, one.tensor.accumulators});
}

absl::Status ExactRoundTensor(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(const ExactCall one, ExactArguments(call));
  return call.Launch(ExactResult{one.tensor.accumulators, one.tensor.elements, one.tensor.x});
}

absl::Status AddExact(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0));
  const int64_t elements = Elements(call.out[0]);
  WEFT_RETURN_IF_ERROR(CheckAccumulator(call, call.in[0], elements, "input 0"));
  WEFT_RETURN_IF_ERROR(CheckAccumulator(call, call.in[1], elements, "input 1"));
  WEFT_RETURN_IF_ERROR(CheckAccumulator(call, call.out[0], elements, "output 0"));
  const void* const parts[] = {call.in[0].data, call.in[1].data, call.out[0].data};
  SumParts args;
  args.type = Type::kExact192;
  args.elements = elements;
  args.parts = parts;
  args.count = call.step.accumulate() ? 3 : 2;
  args.destination = call.out[0].data;
  return call.Launch(args);
}

absl::Status FillExact(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(const ExactCall one, ExactArguments(call));
  return call.Launch(ExactConstant{one.value, one.tensor.elements, one.tensor.accumulators});
}

}  // namespace weft::exec::cuda
