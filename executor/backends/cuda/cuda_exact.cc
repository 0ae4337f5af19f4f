// EXACT_ACCUMULATE, EXACT_ROUND, and ADD and FILL of EXACT192: gradient sums that have the same value in any order.
#include "executor/backends/cuda/cuda_arguments.h"
#include "executor/backends/cuda/kernels/sum_parts.h"

namespace weft::exec::cuda {
ExactCall ExactArguments(const Call& call) {
  ExactCall result;
  switch (call.step.kernel()) {
    case EXACT_ACCUMULATE:
      result.op = ExactOp::kAccumulate;
      result.tensor = {Elements(call.in[0]), static_cast<Exact192*>(call.out[0].data), ArrayOf(call.in[0])};
      return result;
    case EXACT_ROUND:
      result.op = ExactOp::kRound;
      result.tensor = {Elements(call.out[0]), static_cast<Exact192*>(call.in[0].data), ArrayOf(call.out[0])};
      return result;
    default:
      exact192::AddNumber(result.value, call.attributes().value());
      result.tensor = {Elements(call.out[0]), static_cast<Exact192*>(call.out[0].data), {}};
      return result;
  }
}

absl::Status ExactAccumulateTensor(const Call& call) {
  const ExactCall one = ExactArguments(call);
  return call.Launch(ExactTerms{one.tensor.x, one.tensor.elements, false, one.tensor.accumulators});
}

absl::Status ExactRoundTensor(const Call& call) {
  const ExactCall one = ExactArguments(call);
  return call.Launch(ExactResult{one.tensor.accumulators, one.tensor.elements, one.tensor.x});
}

absl::Status AddExact(const Call& call) {
  const void* const parts[] = {call.in[0].data, call.in[1].data, call.out[0].data};
  SumParts args;
  args.type = Type::kExact192;
  args.elements = Elements(call.out[0]);
  args.parts = parts;
  args.count = call.step.accumulate() ? 3 : 2;
  args.destination = call.out[0].data;
  return call.Launch(args);
}

absl::Status FillExact(const Call& call) {
  const ExactCall one = ExactArguments(call);
  return call.Launch(ExactConstant{one.value, one.tensor.elements, one.tensor.accumulators});
}

}  // namespace weft::exec::cuda
