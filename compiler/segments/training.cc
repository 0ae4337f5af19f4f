#include "compiler/segments/training.h"

#include "ir/dialect.h"

namespace weft {

namespace {

constexpr llvm::StringLiteral kTraining = "weft.training";

}  // namespace

mlir::Type TypeOfDType(mlir::MLIRContext* context, DType dtype) {
  mlir::Builder builder(context);
  switch (dtype) {
    case FP64:
      return builder.getF64Type();
    case FP32:
      return builder.getF32Type();
    case BF16:
      return builder.getBF16Type();
    case FP16:
      return builder.getF16Type();
    case INT32:
      return builder.getI32Type();
    case EXACT192:
      return ir::Exact192Type::get(context);
    case UINT8:
      return builder.getIntegerType(8, /*isSigned=*/false);
    default:
      return {};
  }
}

DType DTypeOfType(mlir::Type type) {
  if (type.isF64()) return FP64;
  if (type.isF32()) return FP32;
  if (type.isBF16()) return BF16;
  if (type.isF16()) return FP16;
  if (type.isInteger(32)) return INT32;
  if (type.isUnsignedInteger(8)) return UINT8;
  if (mlir::isa<ir::Exact192Type>(type)) return EXACT192;
  return DTYPE_UNSPECIFIED;
}

void SetTraining(mlir::ModuleOp module, const Training& training) {
  mlir::Builder builder(module.getContext());
  llvm::SmallVector<mlir::NamedAttribute> fields;
  auto add = [&](llvm::StringRef name, mlir::Attribute value) { fields.push_back(builder.getNamedAttr(name, value)); };
  add("accumulation", builder.getStringAttr(training.accumulation == EXACT ? "exact" : "in_order"));
  add("clip_norm", builder.getF64FloatAttr(training.clip_norm));
  add("grads", mlir::TypeAttr::get(training.grads));
  add("master", mlir::TypeAttr::get(training.master));
  add("moments", mlir::TypeAttr::get(training.moments));
  add("optimizer", builder.getStringAttr(training.adamw ? "adamw" : "sgd"));
  if (training.adamw) {
    add("beta1", builder.getF64FloatAttr(training.beta1));
    add("beta2", builder.getF64FloatAttr(training.beta2));
    add("epsilon", builder.getF64FloatAttr(training.epsilon));
  } else {
    add("momentum", builder.getF64FloatAttr(training.momentum));
  }
  if (training.scaled()) add("loss_scale", builder.getF64FloatAttr(training.loss_scale));
  if (training.dynamic()) add("growth_interval", builder.getI32IntegerAttr(training.growth_interval));
  if (training.asynchronous) add("asynchronous", builder.getUnitAttr());
  if (training.stochastic_rounding) add("stochastic_rounding", builder.getUnitAttr());
  module->setAttr(kTraining, builder.getDictionaryAttr(fields));
}

mlir::FailureOr<Training> GetTraining(mlir::ModuleOp module) {
  auto fields = module->getAttrOfType<mlir::DictionaryAttr>(kTraining);
  if (!fields) {
    module->emitOpError("[training_c1] needs the attribute weft.training");
    return mlir::failure();
  }
  Training training;
  bool ok = true;
  auto fail = [&](llvm::StringRef name, llvm::StringRef allowed) {
    ok = false;
    module->emitOpError() << "[training_c2] field " << name << " of weft.training must be " << allowed;
  };
  auto number = [&](llvm::StringRef name, double* target) {
    auto value = fields.getAs<mlir::FloatAttr>(name);
    if (!value || !value.getType().isF64() || !(value.getValueAsDouble() >= 0)) return fail(name, "an f64, at least 0");
    *target = value.getValueAsDouble();
  };
  auto type = [&](llvm::StringRef name, mlir::Type* target) {
    auto value = fields.getAs<mlir::TypeAttr>(name);
    if (!value || !mlir::isa<mlir::FloatType>(value.getValue())) return fail(name, "a type of floats");
    *target = value.getValue();
  };
  auto choice = [&](llvm::StringRef name, llvm::StringRef first, llvm::StringRef second, bool* is_first) {
    auto value = fields.getAs<mlir::StringAttr>(name);
    if (!value || (value != first && value != second))
      return fail(name, ("\"" + first + "\" or \"" + second + "\"").str());
    *is_first = value == first;
  };
  training.asynchronous = static_cast<bool>(fields.get("asynchronous"));
  training.stochastic_rounding = static_cast<bool>(fields.get("stochastic_rounding"));
  bool exact = false;
  choice("accumulation", "exact", "in_order", &exact);
  training.accumulation = exact ? EXACT : IN_ORDER;
  number("clip_norm", &training.clip_norm);
  type("grads", &training.grads);
  type("master", &training.master);
  type("moments", &training.moments);
  if (fields.get("loss_scale")) number("loss_scale", &training.loss_scale);
  if (mlir::Attribute given = fields.get("growth_interval")) {
    auto interval = mlir::dyn_cast<mlir::IntegerAttr>(given);
    if (!interval || !interval.getType().isInteger(32) || interval.getInt() < 1 || !training.scaled()) {
      fail("growth_interval", "an i32, at least 1, beside loss_scale");
    } else {
      training.growth_interval = static_cast<int32_t>(interval.getInt());
    }
  }
  choice("optimizer", "adamw", "sgd", &training.adamw);
  if (!ok) return mlir::failure();
  if (training.adamw) {
    number("beta1", &training.beta1);
    number("beta2", &training.beta2);
    number("epsilon", &training.epsilon);
  } else {
    number("momentum", &training.momentum);
  }
  if (!ok) return mlir::failure();
  return training;
}

}  // namespace weft
