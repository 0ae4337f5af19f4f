// Types and attributes of the rank level that have their own checks or their own text form.
#include <set>

#include "ir/dialect.h"
#include "mlir/IR/DialectImplementation.h"

namespace weft::ir {

mlir::LogicalResult BufferType::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emit, BufferClass, int64_t bytes,
                                       mlir::Type content) {
  if (bytes < 0) return emit() << "[buffer_c1] a buffer must not have a negative size, got " << bytes << " bytes";
  if (!content) return mlir::success();
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(content);
  if (!tensor || !tensor.hasStaticShape()) {
    return emit() << "[buffer_c2] the content of a buffer must be a statically shaped tensor, got " << content;
  }
  return mlir::success();
}

mlir::LogicalResult MeshAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emit,
                                     llvm::ArrayRef<mlir::StringAttr> names, llvm::ArrayRef<int64_t> sizes) {
  if (names.size() != sizes.size()) return emit() << "[mesh_c1] every axis must have a size";
  std::set<llvm::StringRef> seen;
  int64_t ranks = 1;
  for (auto [name, size] : llvm::zip_equal(names, sizes)) {
    if (size < 1) return emit() << "[mesh_c2] axis " << name << " must have at least one coordinate, got " << size;
    if (!seen.insert(name.getValue()).second) return emit() << "[mesh_c3] axis " << name << " is listed twice";
    if (size > (int64_t{1} << 40) / ranks) return emit() << "[mesh_c4] the mesh has more than 2^40 ranks";
    ranks *= size;
  }
  return mlir::success();
}

int64_t MeshAttr::getSize(llvm::StringRef axis) const {
  for (auto [name, size] : llvm::zip_equal(getNames(), getSizes())) {
    if (name == axis) return size;
  }
  return 1;
}

// Parses the text form <data = 2, pipe = 4>.
mlir::Attribute MeshAttr::parse(mlir::AsmParser& parser, mlir::Type) {
  llvm::SmallVector<mlir::StringAttr> names;
  llvm::SmallVector<int64_t> sizes;
  auto parse_axis = [&]() -> mlir::ParseResult {
    std::string name;
    int64_t size = 0;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() || parser.parseInteger(size)) {
      return mlir::failure();
    }
    names.push_back(mlir::StringAttr::get(parser.getContext(), name));
    sizes.push_back(size);
    return mlir::success();
  };
  llvm::SMLoc location = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::LessGreater, parse_axis)) return {};
  return MeshAttr::getChecked([&] { return parser.emitError(location); }, parser.getContext(),
                              llvm::ArrayRef<mlir::StringAttr>(names), llvm::ArrayRef<int64_t>(sizes));
}

void MeshAttr::print(mlir::AsmPrinter& printer) const {
  printer << '<';
  llvm::interleaveComma(llvm::zip_equal(getNames(), getSizes()), printer, [&](auto axis) {
    printer.printKeywordOrString(std::get<0>(axis).getValue());
    printer << " = " << std::get<1>(axis);
  });
  printer << '>';
}

}  // namespace weft::ir
