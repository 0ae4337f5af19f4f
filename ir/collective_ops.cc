// Registration, verifiers, costs and derivatives of collectives.
#include "ir/checks.h"
#include "ir/gradients.h"
#include "ir/graph_ops.h"
#include "ir/groups.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/collective_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerCollectiveOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/collective_ops.cc.inc"
      >();
}

namespace {

mlir::RankedTensorType TypeOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }

// Number of elements of a tensor; saturates.
int64_t Elements(mlir::Value value) {
  int64_t elements = 1;
  for (int64_t extent : ShapeOf(value)) elements = SaturatingMultiply(elements, extent);
  return elements;
}

mlir::LogicalResult CheckPurpose(mlir::Operation* op, llvm::StringRef id, Purpose given,
                                 llvm::ArrayRef<Purpose> allowed) {
  if (llvm::is_contained(allowed, given)) return mlir::success();
  mlir::InFlightDiagnostic error = op->emitOpError() << "[" << id << "] purpose must be ";
  llvm::interleave(allowed, [&](Purpose purpose) { error << stringifyPurpose(purpose); }, [&] { error << " or "; });
  return error << ", got " << stringifyPurpose(given);
}

mlir::LogicalResult CheckCounts(mlir::Operation* op, llvm::StringRef id, size_t inputs, size_t outputs) {
  if (inputs > 0 && inputs == outputs) return mlir::success();
  return op->emitOpError() << "[" << id << "] needs inputs and as many results, got " << inputs << " and " << outputs;
}

// Checks that `whole` has as many elements as `members` parts. If `of_tensor` is true, `whole` may have fewer elements,
// because the last parts are padded.
mlir::LogicalResult CheckParts(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, size_t index,
                               mlir::Value whole, mlir::Value part, int64_t members, bool of_tensor) {
  const int64_t expected = SaturatingMultiply(Elements(part), members);
  const bool fits = of_tensor && members > 0 ? Elements(part) == llvm::divideCeil(Elements(whole), members)
                                             : Elements(whole) == expected;
  if (fits && expected < kCostLimit) return mlir::success();
  mlir::InFlightDiagnostic error = op->emitOpError()
                                   << "[" << id << "] " << what << " " << index << " must have " << members << " x "
                                   << Elements(part) << " = " << expected << " elements";
  if (of_tensor) error << ", or fewer, if they do not fit into smaller parts";
  return error << ", got " << Elements(whole);
}

mlir::LogicalResult CheckSameElement(mlir::Operation* op, llvm::StringRef id, size_t index, mlir::Value input,
                                     mlir::Value output) {
  if (TypeOf(input).getElementType() == TypeOf(output).getElementType()) return mlir::success();
  return op->emitOpError() << "[" << id << "] result " << index << " must hold " << TypeOf(input).getElementType()
                           << " like its input, got " << TypeOf(output).getElementType();
}

// Bytes of `parts`, plus bytes of `wholes`. Each whole counts with the elements of `members` parts, that is, with its
// padding.
int64_t BytesOf(mlir::ValueRange parts, mlir::ValueRange wholes, int64_t members) {
  int64_t bytes = 0;
  for (auto [part, whole] : llvm::zip(parts, wholes)) {
    const int64_t elements = SaturatingMultiply(Elements(part), members);
    auto all = mlir::RankedTensorType::get({elements}, TypeOf(whole).getElementType());
    bytes = SaturatingAdd(bytes, SaturatingAdd(BytesOfTensor(TypeOf(part)), BytesOfTensor(all)));
  }
  return bytes;
}

}  // namespace

int64_t GroupAllReduceOp::bytes() { return BytesOf(getInputs(), getOutputs(), 1); }
int64_t GroupAllGatherOp::bytes() { return BytesOf(getInputs(), getOutputs(), getMembers()); }
int64_t GroupReduceScatterOp::bytes() { return BytesOf(getOutputs(), getInputs(), getMembers()); }

mlir::LogicalResult GroupAllReduceOp::verify() {
  if (mlir::failed(CheckCounts(*this, "group_all_reduce_c1", getInputs().size(), getOutputs().size())) ||
      mlir::failed(CheckOver(*this, "group_all_reduce_c2", getOver(), getMembers())) ||
      mlir::failed(CheckPurpose(*this, "group_all_reduce_c3", getPurpose(), {Purpose::Tensor}))) {
    return mlir::failure();
  }
  for (auto [input, output] : llvm::zip(getInputs(), getOutputs())) {
    if (mlir::failed(ExpectType(*this, "group_all_reduce_c4", "result (like its input)", output, input.getType()))) {
      return mlir::failure();
    }
  }
  return mlir::success();
}

mlir::LogicalResult GroupAllGatherOp::verify() {
  if (mlir::failed(CheckCounts(*this, "group_all_gather_c1", getInputs().size(), getOutputs().size())) ||
      mlir::failed(CheckOver(*this, "group_all_gather_c2", getOver(), getMembers())) ||
      mlir::failed(
          CheckPurpose(*this, "group_all_gather_c3", getPurpose(), {Purpose::Tensor, Purpose::GatherWeights}))) {
    return mlir::failure();
  }
  for (auto [i, input, output] : llvm::enumerate(getInputs(), getOutputs())) {
    if (mlir::failed(CheckSameElement(*this, "group_all_gather_c4", i, input, output)) ||
        mlir::failed(CheckParts(*this, "group_all_gather_c5", "result", i, output, input, getMembers(),
                                getPurpose() == Purpose::GatherWeights))) {
      return mlir::failure();
    }
  }
  return mlir::success();
}

mlir::LogicalResult GroupReduceScatterOp::verify() {
  if (mlir::failed(CheckCounts(*this, "group_reduce_scatter_c1", getInputs().size(), getOutputs().size())) ||
      mlir::failed(CheckOver(*this, "group_reduce_scatter_c2", getOver(), getMembers())) ||
      mlir::failed(
          CheckPurpose(*this, "group_reduce_scatter_c3", getPurpose(), {Purpose::Tensor, Purpose::ScatterGradients}))) {
    return mlir::failure();
  }
  for (auto [i, input, output] : llvm::enumerate(getInputs(), getOutputs())) {
    if (mlir::failed(CheckParts(*this, "group_reduce_scatter_c4", "input", i, input, output, getMembers(),
                                getPurpose() == Purpose::ScatterGradients))) {
      return mlir::failure();
    }
    if (mlir::isa<Exact192Type>(TypeOf(input).getElementType()) &&
        TypeOf(input).getElementType() != TypeOf(output).getElementType()) {
      return CheckSameElement(*this, "group_reduce_scatter_c5", i, input, output);
    }
  }
  if (!getInits().empty() && getInits().getTypes() != getOutputs().getTypes()) {
    return emitOpError(
        "[group_reduce_scatter_c6] must take an init for each result, of the type of that result, or none");
  }
  return mlir::success();
}

mlir::LogicalResult FanOutOp::verify() {
  if (mlir::failed(CheckOver(*this, "fan_out_c1", getOver(), getMembers()))) return mlir::failure();
  return CheckPurpose(*this, "fan_out_c2", getPurpose(), {Purpose::Tensor});
}

mlir::LogicalResult CutGradientsOp::verify() {
  if (mlir::failed(CheckCounts(*this, "cut_gradients_c1", getInputs().size(), getOutputs().size())) ||
      mlir::failed(CheckOver(*this, "cut_gradients_c2", getOver(), getMembers()))) {
    return mlir::failure();
  }
  for (auto [input, output] : llvm::zip(getInputs(), getOutputs())) {
    if (mlir::failed(ExpectType(*this, "cut_gradients_c3", "result (like its input)", output, input.getType()))) {
      return mlir::failure();
    }
  }
  return mlir::success();
}

// --- Derivatives ----------------------------------------------------------------------------------------------------
//
// One collective, with one message, computes the gradients of all operands that request one. If some requests have an
// init and others do not, two collectives are needed.

Gradients GroupAllReduceOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                          Requests requests) {
  Gradients gradients(requests.size());
  for (auto [gradient, result, request] : llvm::zip(gradients, resultGrads, requests)) {
    if (result && request.type) gradient = Deliver(builder, getLoc(), result, request);
  }
  return gradients;
}

Gradients FanOutOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                  Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  auto sum = builder.create<GroupAllReduceOp>(getLoc(), mlir::TypeRange{resultGrads[0].getType()}, resultGrads[0],
                                              getOverAttr(), getMembersAttr(), getPurposeAttr(), getAlgorithmAttr(),
                                              builder.getUnitAttr(), mlir::UnitAttr());
  return {Deliver(builder, getLoc(), sum.getOutputs()[0], requests[0])};
}

namespace {

// Returns the gradients of the operands: this rank's ranges of the sums of `resultGrads` over the group.
template <typename Op>
Gradients ScatterGradientsOf(Op op, Purpose purpose, mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                             Requests requests) {
  Gradients gradients(requests.size());
  for (bool with_init : {true, false}) {
    llvm::SmallVector<size_t> chosen;
    llvm::SmallVector<mlir::Value> inputs, inits;
    llvm::SmallVector<mlir::Type> types;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!resultGrads[i] || !requests[i].type || static_cast<bool>(requests[i].init) != with_init) continue;
      chosen.push_back(i);
      inputs.push_back(resultGrads[i]);
      types.push_back(requests[i].type);
      if (with_init) inits.push_back(requests[i].init);
    }
    if (chosen.empty()) continue;
    auto scatter = builder.create<GroupReduceScatterOp>(op.getLoc(), types, inputs, inits, op.getOverAttr(),
                                                        op.getMembersAttr(), PurposeAttr::get(op.getContext(), purpose),
                                                        op.getAlgorithmAttr(), builder.getUnitAttr(), mlir::UnitAttr());
    for (auto [i, output] : llvm::zip(chosen, scatter.getOutputs())) gradients[i] = output;
  }
  return gradients;
}

}  // namespace

Gradients GroupAllGatherOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                          Requests requests) {
  const Purpose purpose = getPurpose() == Purpose::GatherWeights ? Purpose::ScatterGradients : getPurpose();
  return ScatterGradientsOf(*this, purpose, builder, resultGrads, requests);
}

Gradients CutGradientsOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                        Requests requests) {
  return ScatterGradientsOf(*this, Purpose::ScatterGradients, builder, resultGrads, requests);
}

Gradients GroupReduceScatterOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                              Requests requests) {
  Gradients gradients(requests.size());
  llvm::SmallVector<size_t> chosen;
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Type> types;
  for (size_t i = 0; i < getInputs().size(); ++i) {
    if (!resultGrads[i] || !requests[i].type) continue;
    chosen.push_back(i);
    inputs.push_back(resultGrads[i]);
    types.push_back(mlir::RankedTensorType::get(ShapeOf(getInputs()[i]), TypeOf(resultGrads[i]).getElementType()));
  }
  if (!chosen.empty()) {
    const Purpose purpose = getPurpose() == Purpose::ScatterGradients ? Purpose::Tensor : getPurpose();
    auto gather = builder.create<GroupAllGatherOp>(getLoc(), types, inputs, getOverAttr(), getMembersAttr(),
                                                   PurposeAttr::get(getContext(), purpose), getAlgorithmAttr(),
                                                   builder.getUnitAttr(), mlir::UnitAttr());
    for (auto [i, output] : llvm::zip(chosen, gather.getOutputs())) {
      gradients[i] = Deliver(builder, getLoc(), output, requests[i]);
    }
  }
  // The result is a sum plus the init, so the gradient of the init is the gradient of the result.
  for (size_t i = 0; i < getInits().size(); ++i) {
    const size_t operand = getInputs().size() + i;
    if (resultGrads[i] && requests[operand].type) {
      gradients[operand] = Deliver(builder, getLoc(), resultGrads[i], requests[operand]);
    }
  }
  return gradients;
}

}  // namespace weft::ir
