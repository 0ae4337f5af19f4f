#include "compiler/segments/cost_of_ops.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/segments/group_of.h"
#include "compiler/segments/training.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "proto/util/status.h"

namespace weft {

namespace {

// Copies the attributes that StepAttributes has a field for; both use the same names.
void CopyAttributes(mlir::Operation* op, StepAttributes* attributes) {
  const auto* descriptor = StepAttributes::descriptor();
  const auto* reflection = StepAttributes::GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    mlir::Attribute value = op->getAttr(field->name());
    if (!value) continue;
    using Field = google::protobuf::FieldDescriptor;
    if (field->is_repeated()) {
      for (mlir::Attribute name : mlir::cast<mlir::ArrayAttr>(value)) {
        reflection->AddString(attributes, field, mlir::cast<mlir::StringAttr>(name).str());
      }
    } else if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      auto terms = mlir::cast<mlir::DictionaryAttr>(value);
      if (terms.empty()) continue;
      auto* shift = static_cast<Shift*>(reflection->MutableMessage(attributes, field));
      for (mlir::NamedAttribute term : terms) {
        ShiftTerm& added = *shift->add_terms();
        added.set_axis(term.getName().str());
        added.set_stride(mlir::cast<mlir::IntegerAttr>(term.getValue()).getInt());
      }
    } else if (field->cpp_type() == Field::CPPTYPE_BOOL) {
      reflection->SetBool(attributes, field, true);
    } else if (auto number = mlir::dyn_cast<mlir::FloatAttr>(value)) {
      reflection->SetDouble(attributes, field, number.getValueAsDouble());
    } else if (auto integer = mlir::dyn_cast<mlir::IntegerAttr>(value)) {
      if (field->cpp_type() == Field::CPPTYPE_UINT32) {
        reflection->SetUInt32(attributes, field, static_cast<uint32_t>(integer.getInt()));
      } else if (field->cpp_type() == Field::CPPTYPE_INT32) {
        reflection->SetInt32(attributes, field, static_cast<int32_t>(integer.getInt()));
      } else {
        reflection->SetInt64(attributes, field, integer.getInt());
      }
    }
  }
}

// The dtype that determines the speed: TF32 for a product in TF32; otherwise the dtype of the first floating-point
// operand, or of the first result if no operand is floating-point.
DType WorkDType(mlir::Operation* op) {
  if (auto product = mlir::dyn_cast<ir::MatmulOp>(op); product && product.getTf32()) return TF32;
  auto dtype = [](mlir::Value value) {
    return DTypeOfType(mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType());
  };
  for (mlir::Value operand : op->getOperands()) {
    if (mlir::isa<mlir::FloatType>(mlir::cast<mlir::RankedTensorType>(operand.getType()).getElementType())) {
      return dtype(operand);
    }
  }
  return op->getNumResults() > 0 ? dtype(op->getResult(0)) : DTYPE_UNSPECIFIED;
}

}  // namespace

Kernel KernelOf(mlir::Operation* op) {
  Kernel kernel = KERNEL_UNSPECIFIED;
  if (!mlir::isa<ir::KernelInterface>(op)) return kernel;
  std::string name = op->getName().stripDialect().str();
  absl::AsciiStrToUpper(&name);
  Kernel_Parse(name, &kernel);
  return kernel;
}

Step MakeStep(mlir::Operation* op) {
  Step step;
  auto name = op->getAttrOfType<mlir::StringAttr>(ir::kNameAttr);
  step.set_name(name ? name.str() : op->getName().stripDialect().str());
  step.set_kernel(KernelOf(op));
  step.set_accumulate(mlir::cast<ir::KernelInterface>(op).accumulates());
  CopyAttributes(op, step.mutable_attributes());
  if (step.attributes().ByteSizeLong() == 0) step.clear_attributes();
  auto cost = mlir::cast<ir::CostInterface>(op);
  step.mutable_work()->set_flops(cost.flops());
  step.mutable_work()->set_bytes(cost.bytes());
  step.mutable_work()->set_dtype(WorkDType(op));
  step.set_stream(COMPUTE);
  auto over = op->getAttrOfType<mlir::DictionaryAttr>("over");
  // In an op without `purpose`, `over` does not belong to the op itself: it names the group for a collective in the
  // op's derivative.
  if (!over || !op->hasAttr("purpose")) return step;
  step.set_stream(COLLECTIVE);
  step.set_detached(op->hasAttr("detached"));
  Collective* collective = step.mutable_collective();
  *collective->mutable_group() = GroupOf(over);
  collective->set_purpose(static_cast<Purpose>(op->getAttrOfType<ir::PurposeAttr>("purpose").getValue()));
  collective->set_algorithm(op->getAttrOfType<mlir::StringAttr>("algorithm").str());
  return step;
}

Segment SegmentOfOp(mlir::Operation* op) {
  Segment segment;
  Step* step = segment.add_steps();
  *step = MakeStep(op);
  const auto add = [&segment](mlir::Value of) {
    const auto type = mlir::cast<mlir::RankedTensorType>(of.getType());
    Value* value = segment.add_values();
    value->set_dtype(DTypeOfType(type.getElementType()));
    value->mutable_shape()->Add(type.getShape().begin(), type.getShape().end());
    return segment.values_size() - 1;
  };
  auto kernel = mlir::cast<ir::KernelInterface>(op);
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (kernel.isStepInput(index)) step->add_inputs(add(operand));
  }
  for (mlir::Value result : op->getResults()) step->add_outputs(add(result));
  return segment;
}

absl::StatusOr<int64_t> NominalStepCost(const Segment&, const Step& step, ActionKind) {
  return std::max(step.work().flops() / 100, step.work().bytes());
}

absl::StatusOr<int64_t> CostOfOp(mlir::Operation* op, ActionKind kind, const StepCost& cost) {
  const Segment alone = SegmentOfOp(op);
  return cost(alone, alone.steps(0), kind);
}

absl::StatusOr<GraphCosts> CostsOfGraph(ir::GraphOp graph, const StepCost& cost) {
  GraphCosts costs;
  auto add = [&](mlir::Operation* op, int64_t layer, ActionKind kind) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(int64_t picoseconds, CostOfOp(op, kind, cost));
    costs.layers[layer] = ir::SaturatingAdd(costs.layers[layer], std::max<int64_t>(0, picoseconds));
    auto interface = mlir::cast<ir::CostInterface>(op);
    costs.flops = ir::SaturatingAdd(costs.flops, interface.modelFlops());
    costs.flops_masked = ir::SaturatingAdd(costs.flops_masked, interface.maskedFlops());
    return absl::OkStatus();
  };
  // Real backward ops are built, with block arguments for gradients, and then discarded.
  mlir::Block scratch;
  mlir::OpBuilder builder(graph.getContext());
  // Values that depend on a parameter, and therefore need a gradient. The image at the start of a model does not.
  llvm::DenseSet<mlir::Value> needs_gradient;
  for (mlir::Operation& op : graph.getBody().front()) {
    const bool needed = mlir::isa<ir::ParameterOp>(op) || llvm::any_of(op.getOperands(), [&](mlir::Value operand) {
                          return needs_gradient.contains(operand);
                        });
    if (needed) needs_gradient.insert(op.getResults().begin(), op.getResults().end());
    auto differentiable = mlir::dyn_cast<ir::DifferentiableInterface>(op);
    // An op that costs nothing in the forward may cost something in the backward.
    if (!mlir::isa<ir::KernelInterface>(op) && !differentiable) continue;
    auto layer = op.getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr);
    if (!layer || layer.getInt() < 0 || layer.getInt() > (1 << 24)) {
      return absl::InvalidArgumentError(
          absl::StrCat("an op ", op.getName().getStringRef().str(), " has no layer between 0 and 2^24"));
    }
    if (layer.getInt() >= static_cast<int64_t>(costs.layers.size())) costs.layers.resize(layer.getInt() + 1, 0);
    if (mlir::isa<ir::KernelInterface>(op)) WEFT_RETURN_IF_ERROR(add(&op, layer.getInt(), FORWARD));
    if (!differentiable || !needed) continue;
    builder.setInsertionPointToEnd(&scratch);
    llvm::SmallVector<mlir::Value> gradients;
    for (mlir::Value result : op.getResults()) gradients.push_back(scratch.addArgument(result.getType(), op.getLoc()));
    llvm::SmallVector<ir::GradientRequest> requests;
    for (mlir::Value operand : op.getOperands()) {
      auto type = mlir::cast<mlir::RankedTensorType>(operand.getType());
      const bool wanted = mlir::isa<mlir::FloatType>(type.getElementType()) && needs_gradient.contains(operand);
      requests.push_back({wanted ? type : mlir::RankedTensorType(), {}});
    }
    differentiable.buildBackward(builder, gradients, requests);
    for (mlir::Operation& made : scratch) WEFT_RETURN_IF_ERROR(add(&made, layer.getInt(), BACKWARD));
    scratch.clear();
  }
  return costs;
}

}  // namespace weft
