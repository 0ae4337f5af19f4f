#include <set>
#include <utility>

#include "ir/checks.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#define GET_OP_CLASSES
#include "ir/structure_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerStructureOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/structure_ops.cc.inc"
      >();
}

mlir::LogicalResult TensorOp::verify() {
  auto type = mlir::dyn_cast<mlir::RankedTensorType>(getType());
  if (!type || !type.hasStaticShape()) {
    return emitOpError() << "[tensor_c1] type must be a statically shaped tensor, got " << getType();
  }
  llvm::ArrayRef<int64_t> shape = getShape();
  llvm::ArrayRef<int64_t> padded = getPadded() ? *getPadded() : type.getShape();
  bool agrees = shape.size() == padded.size();
  for (size_t i = 0; agrees && i < shape.size(); ++i) {
    agrees = shape[i] > 0 && (shape[i] == padded[i] || (i == 0 && shape[i] < padded[i]));
  }
  if (!agrees) {
    return emitOpError() << "[tensor_c2] shape " << ShapeText(shape) << " may differ from the stored shape "
                         << ShapeText(padded) << " only by being smaller in dimension 0";
  }
  if (getIndexAttr().getInt() < 0 || getUsesAttr().getInt() < 1) {
    return emitOpError() << "[tensor_c3] index must be at least 0 and uses at least 1, got index "
                         << getIndexAttr().getInt() << " and uses " << getUsesAttr().getInt();
  }
  for (mlir::NamedAttribute cut : getCuts().value_or(mlir::DictionaryAttr::get(getContext()))) {
    auto what = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(cut.getValue());
    if (what && what.size() == 2 && what[0] >= 0 && what[0] < static_cast<int64_t>(padded.size()) && what[1] > 0) {
      continue;
    }
    return emitOpError() << "[tensor_c4] cuts must name a dimension and its runs, as in {x = array<i64: 1, 3>}, got "
                         << cut.getValue();
  }
  return mlir::success();
}

mlir::LogicalResult ParameterOp::verify() {
  if (getTensorAttr().getInt() >= 0 && getUseAttr().getInt() >= 0) return mlir::success();
  return emitOpError() << "[parameter_c1] tensor and use must not be negative, got tensor " << getTensorAttr().getInt()
                       << " use " << getUseAttr().getInt();
}

mlir::LogicalResult GraphOp::verifyRegions() {
  mlir::Block& block = getBody().front();
  auto losses = block.getNumArguments() == 1 ? mlir::dyn_cast<mlir::RankedTensorType>(block.getArgument(0).getType())
                                             : mlir::RankedTensorType();
  if (!losses || losses.getRank() != 1 || !losses.getElementType().isF64()) {
    return emitOpError("[graph_c1] its block must have one argument, the vector of losses (f64)");
  }
  auto yield = mlir::dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield) return emitOpError("[graph_c2] its block must end with weft.yield");
  if (yield.getLosses().getType() != losses) {
    return yield.emitOpError() << "[graph_c3] must yield losses of type " << losses << ", got "
                               << yield.getLosses().getType();
  }
  std::set<std::pair<int32_t, int32_t>> uses;
  for (auto parameter : block.getOps<ParameterOp>()) {
    if (!uses.insert({parameter.getTensor(), parameter.getUse()}).second) {
      return parameter.emitOpError() << "[graph_c4] tensor " << parameter.getTensor() << " use " << parameter.getUse()
                                     << " appears twice";
    }
  }
  return mlir::success();
}

void SegmentOp::build(mlir::OpBuilder& builder, mlir::OperationState& state, llvm::StringRef name, SegmentKind kind,
                      int32_t stage) {
  Properties& properties = state.getOrAddProperties<Properties>();
  properties.sym_name = builder.getStringAttr(name);
  properties.kind = SegmentKindAttr::get(builder.getContext(), kind);
  properties.stage = builder.getI32IntegerAttr(stage);
  properties.arg_roles = builder.getArrayAttr({});
  properties.result_roles = builder.getArrayAttr({});
  state.addRegion()->emplaceBlock();
}

mlir::BlockArgument SegmentOp::findArgument(RoleAttr role) {
  for (auto [index, attribute] : llvm::enumerate(getArgRoles())) {
    if (attribute == role) return getBody().getArgument(index);
  }
  return {};
}

mlir::BlockArgument SegmentOp::addArgument(RoleAttr role, mlir::Type type, mlir::Location loc) {
  llvm::SmallVector<mlir::Attribute> roles(getArgRoles().begin(), getArgRoles().end());
  roles.push_back(role);
  setArgRolesAttr(mlir::ArrayAttr::get(getContext(), roles));
  return getBody().addArgument(type, loc);
}

ReturnOp SegmentOp::getReturn() { return mlir::cast<ReturnOp>(getBody().front().getTerminator()); }

mlir::LogicalResult SegmentOp::verifyRegions() {
  mlir::Block& block = getBody().front();
  if (getArgRoles().size() != block.getNumArguments()) {
    return emitOpError() << "[segment_c1] " << getArgRoles().size() << " argument roles for " << block.getNumArguments()
                         << " arguments";
  }
  auto ret = mlir::dyn_cast_or_null<ReturnOp>(block.empty() ? nullptr : &block.back());
  if (!ret) return emitOpError("[segment_c2] its block must end with weft.return");
  if (getResultRoles().size() != ret.getNumOperands()) {
    return emitOpError() << "[segment_c3] " << getResultRoles().size() << " result roles for " << ret.getNumOperands()
                         << " returned values";
  }
  llvm::DenseMap<mlir::Attribute, mlir::Type> arguments;
  for (auto [index, argument] : llvm::enumerate(block.getArguments())) {
    mlir::Attribute role = getArgRoles()[index];
    if (!arguments.insert({role, argument.getType()}).second) {
      return emitOpError() << "[segment_c4] two arguments have the role " << role;
    }
  }
  llvm::DenseMap<mlir::Attribute, mlir::Type> results;
  for (auto [index, value] : llvm::enumerate(ret.getValues())) {
    mlir::Attribute role = getResultRoles()[index];
    if (!results.insert({role, value.getType()}).second) {
      return emitOpError() << "[segment_c5] two results have the role " << role;
    }
    auto argument = arguments.find(role);
    if (argument != arguments.end() && argument->second != value.getType()) {
      return emitOpError() << "[segment_c6] the result with role " << role << " has type " << value.getType()
                           << ", its argument " << argument->second;
    }
  }
  if (getStageAttr().getInt() < 0) {
    return emitOpError() << "[segment_c7] stage must not be negative, got " << getStageAttr().getInt();
  }
  if (getRankAttr() && (getRankAttr().getInt() < 0 || !IsOfRank(getKind()))) {
    return emitOpError() << "[segment_c8] rank must not be negative, and only grad_norm, scale_gradients and "
                            "optimizer_step have one; got rank "
                         << getRankAttr().getInt() << " for " << stringifySegmentKind(getKind());
  }
  return mlir::success();
}

mlir::ParseResult SegmentOp::parse(mlir::OpAsmParser& parser, mlir::OperationState& state) {
  mlir::StringAttr name;
  llvm::StringRef keyword;
  int32_t stage = 0;
  llvm::SMLoc location;
  if (parser.parseSymbolName(name, "sym_name", state.attributes) || parser.getCurrentLocation(&location) ||
      parser.parseKeyword(&keyword)) {
    return mlir::failure();
  }
  std::optional<SegmentKind> kind = symbolizeSegmentKind(keyword);
  if (!kind) {
    return parser.emitError(location) << "unknown kind of segment '" << keyword
                                      << "'; known: forward, backward, backward_input, backward_weight, grad_norm, "
                                         "scale_gradients, optimizer_step, evaluate";
  }
  if (parser.parseKeyword("stage") || parser.parseInteger(stage)) return mlir::failure();
  if (mlir::succeeded(parser.parseOptionalKeyword("rank"))) {
    int32_t rank = 0;
    if (parser.parseInteger(rank)) return mlir::failure();
    state.addAttribute("rank", parser.getBuilder().getI32IntegerAttr(rank));
  }
  llvm::SmallVector<mlir::OpAsmParser::Argument> arguments;
  llvm::SmallVector<mlir::Attribute> arg_roles, result_roles;
  auto parse_role = [&](llvm::SmallVector<mlir::Attribute>& roles) -> mlir::ParseResult {
    mlir::Attribute role = RoleAttr::parse(parser, {});
    if (!role) return mlir::failure();
    roles.push_back(role);
    return mlir::success();
  };
  auto parse_argument = [&]() -> mlir::ParseResult {
    arguments.emplace_back();
    if (parser.parseArgument(arguments.back(), /*allowType=*/true) || parser.parseKeyword("as")) {
      return mlir::failure();
    }
    return parse_role(arg_roles);
  };
  if (parser.parseCommaSeparatedList(mlir::OpAsmParser::Delimiter::Paren, parse_argument) || parser.parseArrow() ||
      parser.parseCommaSeparatedList(mlir::OpAsmParser::Delimiter::Paren, [&] { return parse_role(result_roles); }) ||
      parser.parseOptionalAttrDictWithKeyword(state.attributes)) {
    return mlir::failure();
  }
  mlir::Builder& builder = parser.getBuilder();
  state.addAttribute("kind", SegmentKindAttr::get(builder.getContext(), *kind));
  state.addAttribute("stage", builder.getI32IntegerAttr(stage));
  state.addAttribute("arg_roles", builder.getArrayAttr(arg_roles));
  state.addAttribute("result_roles", builder.getArrayAttr(result_roles));
  mlir::Region* body = state.addRegion();
  if (parser.parseRegion(*body, arguments)) return mlir::failure();
  if (body->empty()) body->emplaceBlock();
  return mlir::success();
}

void SegmentOp::print(mlir::OpAsmPrinter& printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << ' ' << stringifySegmentKind(getKind()) << " stage " << getStage();
  if (getRankAttr()) printer << " rank " << getRankAttr().getInt();
  printer << " (";
  llvm::interleaveComma(llvm::enumerate(getBody().getArguments()), printer, [&](auto pair) {
    printer.printRegionArgument(pair.value());
    // The printer must be able to print a segment that is not valid yet.
    if (pair.index() >= getArgRoles().size()) return;
    printer << " as ";
    getArgRole(pair.index()).print(printer);
  });
  printer << ") -> (";
  llvm::interleaveComma(getResultRoles(), printer,
                        [&](mlir::Attribute role) { mlir::cast<RoleAttr>(role).print(printer); });
  printer << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"sym_name", "kind", "stage", "rank", "arg_roles", "result_roles"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

}  // namespace weft::ir
